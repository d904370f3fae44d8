"""The n-gram index against a reference that searches token by token, and what it costs per keystroke."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.ngram import (
    CHANCES_BUFFER,
    CHANCES_WRITTEN,
    DISPUTED,
    LATEST,
    MATCHES,
    GrowingBlock,
    NgramDrafter,
)
from ghostdraft.drafting.types import ANYTHING, Draft, Opening, Verdict
from ghostdraft.models.types import IntArray, Pass
from tests.fakes import paths

TOKENS = st.lists(st.integers(0, 3), max_size=40)
NOTHING = Pass(np.zeros((1, 4), np.float32))


def slow_continuations(
    written: Sequence[int], buffers: Sequence[Sequence[int]], sizes: Sequence[int], k: int
) -> list[list[int]]:
    """Of each match: of a size those in what was written, the latest first, then the last one of each buffer."""
    found = []
    for n in sizes:
        gram = list(written[-n:])
        for sequence, most in ((written, LATEST), *((buffer, 1) for buffer in dict.fromkeys(map(tuple, buffers)))):
            ends = [
                end for end in range(len(sequence) - 1, n - 1, -1)
                if len(gram) == n and list(sequence[end - n : end]) == gram
            ]  # fmt: skip
            found.extend(list(sequence[end : end + k]) for end in ends[:most])
    return found[:MATCHES]


def drafted(drafter: NgramDrafter, most: int = 32) -> list[int]:
    """The likeliest line."""
    draft, node, line = drafter.propose(most), -1, list[int]()
    while node in draft.parents:
        node = draft.parents.index(node)
        line.append(draft.token_ids[node])
    return line


def assert_equals_the_slow_search(
    drafter: NgramDrafter, written: Sequence[int], buffers: Sequence[Sequence[int]], k: int
) -> None:
    """What is left out has next to no chance: among these at least the best match's first token has one."""
    lines = slow_continuations(written, buffers, (4, 3, 2, 1), k)
    found = paths(drafter.propose(99))
    assert found[:1] == [tuple(lines[0][:1])] if lines else not found
    assert all(any(tuple(line[: len(path)]) == path for line in lines) for path in found)


@given(st.lists(st.tuples(TOKENS, st.lists(TOKENS, max_size=3), TOKENS), min_size=1, max_size=5), st.integers(1, 9))
def test_equals_the_slow_search_over_many_prompts(
    prompts: list[tuple[list[int], list[list[int]], list[int]]], k: int
) -> None:
    drafter = NgramDrafter((4, 3, 2, 1), draft_length=k)
    for prompt, buffers, output in prompts:
        drafter.begin(prompt, buffers)
        written = list(prompt)
        for token in output:
            assert_equals_the_slow_search(drafter, written, buffers, k)
            drafter.observe(Draft(), Verdict((), token), NOTHING)
            written.append(token)
        assert_equals_the_slow_search(drafter, written, buffers, k)


def test_matches_that_say_different_things_make_a_tree() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 7, 8, 1, 2, 3, 4, 1, 2], [[1, 2, 5]])
    found = paths(drafter.propose(99))
    assert found[:2] == [(3,), (3, 4)]
    assert (7,) in found
    assert (7, 8) in found
    assert (5,) in found


@given(TOKENS, st.lists(st.tuples(st.integers(0, 40), TOKENS), max_size=6))
def test_truncating_leaves_no_trace(start: list[int], edits: list[tuple[int, list[int]]]) -> None:
    index = GrowingBlock((3, 2))
    index.extend(start)
    for length, more in edits:
        index.truncate(min(length, len(index.tokens)))
        index.extend(more)
        fresh = GrowingBlock((3, 2))
        fresh.extend(index.tokens)
        assert vars(index) == vars(fresh)


def test_accepted_tokens_are_learned_with_the_one_that_follows() -> None:
    drafter = NgramDrafter((2,), draft_length=2)
    drafter.begin([1, 2, 3, 9, 1, 2], [])
    draft = drafter.propose(2)
    assert draft.token_ids == (3, 9)
    drafter.observe(draft, Verdict((0,), 7), NOTHING)  # 1 2 3 9 1 2 3 7
    assert drafted(drafter) == []
    drafter.observe(Draft(), Verdict((), 2), NOTHING)
    drafter.observe(Draft(), Verdict((), 3), NOTHING)  # ... 1 2 3 7 2 3
    assert drafted(drafter) == [7, 2]


def test_the_longest_match_wins_then_the_prompt_then_the_first_buffer_then_the_latest_place() -> None:
    drafter = NgramDrafter((2, 1), draft_length=1)
    drafter.begin([2, 7, 1, 2], [])
    assert drafted(drafter) == [7]  # one token, from the prompt
    drafter.begin([2, 7, 1, 2], [[1, 2, 8], [1, 2, 9]])
    assert drafted(drafter) == [8]  # two tokens, from the first buffer
    drafter.begin([1, 2, 5, 1, 2, 6, 1, 2], [[1, 2, 8]])
    assert drafted(drafter) == [6]  # the prompt before the buffers, and its latest place


def test_no_more_than_allowed_is_proposed() -> None:
    drafter = NgramDrafter((1,), draft_length=3)
    drafter.begin([1, 2, 3, 4, 5, 6, 1], [])
    assert [len(drafter.propose(most)) for most in (0, 1, 2, 3, 9)] == [0, 1, 2, 3, 3]


class Beginning:
    """The next token has to be this one."""

    def __init__(self, token: int) -> None:
        self.token = token

    @property
    def met(self) -> bool:
        return False

    @property
    def left(self) -> bytes:
        return b""

    def allowed(self) -> IntArray:
        return np.array([self.token], np.int32)

    def fits(self, token_ids: Sequence[int]) -> bool:
        return token_ids[0] == self.token

    def after(self, token_id: int) -> Opening:  # noqa: ARG002
        return ANYTHING


def test_only_what_fits_an_opening_is_copied_and_it_is_wrong_half_as_often() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 5, 6, 3, 1, 2, 7, 8, 4, 1, 2], [[1, 2, 9]])
    draft = drafter.propose(2, Beginning(5))
    assert draft.token_ids == (5, 6)
    assert draft.chances is not None
    assert 1 - draft.chances[0] == pytest.approx((1 - CHANCES_WRITTEN[1]) / 2)
    assert drafted(drafter) == [7, 8, 4, 1, 2]
    assert drafter.propose(2, Beginning(6)).token_ids == ()


def test_where_matches_differ_none_is_as_likely() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 8, 1, 2, 3, 9, 1, 2], [])
    same, differs = drafter.propose(2).chances or ()
    assert same == CHANCES_WRITTEN[1]
    assert differs == pytest.approx(same * CHANCES_WRITTEN[2] * DISPUTED)


def test_chances_grow_with_what_is_the_same_and_shrink_along_the_draft() -> None:
    drafter = NgramDrafter()
    drafter.begin([9, 2, 3, 4, 8, 2], [])
    short = drafter.propose(2)
    drafter.begin([1, 2, 3, 4, 1, 2], [])
    longer = drafter.propose(2)
    assert short.token_ids == longer.token_ids == (3, 4)
    assert short.chances == pytest.approx((CHANCES_WRITTEN[0], CHANCES_WRITTEN[0] * CHANCES_WRITTEN[1]))
    assert longer.chances == pytest.approx((CHANCES_WRITTEN[1], CHANCES_WRITTEN[1] * CHANCES_WRITTEN[2]))


def test_a_match_in_a_buffer_is_worth_less() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2], [[1, 2, 3]])
    assert drafter.propose(1).chances == (CHANCES_BUFFER[1],)


def test_a_long_match_counts_for_more_than_the_longest_gram() -> None:
    drafter = NgramDrafter((2,), draft_length=1)
    drafter.begin([*range(30), *range(25)], [])
    assert drafter.propose(1) == Draft.line([25], chances=[CHANCES_WRITTEN[-1]])


def test_a_reset_forgets() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 1, 2], [[1, 2, 3]])
    drafter.reset()
    drafter.begin([1, 2], [])
    assert drafted(drafter) == []


def test_a_closed_buffer_is_forgotten() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2], [[1, 2, 3]])
    assert drafted(drafter) == [3]
    drafter.begin([1, 2], [])
    assert drafted(drafter) == []


def test_a_keystroke_in_a_large_file_costs_little() -> None:
    """16,000 lines in blocks of 64, one block changed, and a prompt that changed at its end."""
    rng = np.random.default_rng(0)
    blocks = [tuple(int(token) for token in rng.integers(0, 5000, 640)) for _ in range(250)]
    prompt = [int(token) for token in rng.integers(0, 5000, 3000)]
    drafter = NgramDrafter()
    drafter.begin(prompt, blocks)
    times = []
    for key in range(5):
        blocks[0] = (*blocks[0][:320], key, *blocks[0][321:])
        prompt = [*prompt[:-2], key, key]
        started = time.perf_counter()
        drafter.begin(prompt, blocks)
        drafter.propose(7)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.010


def test_a_buffer_beyond_the_limit_is_indexed_as_far_as_there_is_room() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2], [[1, 2, 3, *[5] * 70_000, 8, 9], [8, 9, 4]])
    assert drafted(drafter, 1) == [3]
    drafter.begin([8, 9], [[1, 2, 3, *[5] * 70_000, 8, 9], [8, 9, 4]])
    assert drafted(drafter, 1) == []
