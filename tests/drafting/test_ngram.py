"""What the copying drafter proposes from what it was shown, told and saw happen."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.ngram import DRAFT_LENGTH, NgramDrafter
from ghostdraft.drafting.types import Draft, Price, Verdict
from ghostdraft.models.types import Pass
from tests.fakes import Beginning, paths

TOKENS = st.lists(st.integers(0, 3), max_size=40)
SOME = st.lists(st.integers(0, 3), min_size=1, max_size=40)
NOTHING = Pass(np.zeros((1, 4), np.float32))


def drafted(drafter: NgramDrafter, most: int = 32) -> list[int]:
    """The likeliest line."""
    draft, node, line = drafter.propose(most), -1, list[int]()
    while node in draft.parents:
        node = draft.parents.index(node)
        line.append(draft.token_ids[node])
    return line


@given(SOME, TOKENS, st.lists(TOKENS, max_size=3))
def test_all_that_is_drafted_stands_behind_the_last_token_somewhere(
    prompt: list[int], output: list[int], buffers: list[list[int]]
) -> None:
    drafter = NgramDrafter()
    drafter.begin(prompt, buffers)
    for token in output:
        drafter.observe(Draft(), Verdict((), token), NOTHING)
    written = [*prompt, *output]
    texts = [*buffers, written]
    for path in paths(drafter.propose(99)):
        line = [written[-1], *path]
        assert any(text[i : i + len(line)] == line for text in texts for i in range(len(text)))


def test_matches_that_say_different_things_make_a_tree() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 7, 8, 1, 2, 3, 4, 1, 2], [[1, 2, 5]])
    found = paths(drafter.propose(99))
    assert found[0] == (3,)
    assert {(3, 4), (7,), (7, 8), (5,)} <= set(found)


def test_accepted_tokens_are_learned_with_the_one_that_follows() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 9, 1, 2], [])
    draft = drafter.propose(2)
    assert draft.token_ids == (3, 9)
    drafter.observe(draft, Verdict((0,), 7), NOTHING)  # 1 2 3 9 1 2 3 7
    assert drafted(drafter) == []
    for token in (2, 3):
        drafter.observe(Draft(), Verdict((), token), NOTHING)  # ... 1 2 3 7 2 3
    assert drafted(drafter)[:2] == [7, 2]


@pytest.mark.parametrize(
    ("prompt", "buffers", "token"),
    [
        ([2, 7, 1, 2], [], 7),  # one token is the same, in the prompt
        ([2, 7, 0, 4, 5, 6, 1, 2], [[4, 5, 6, 1, 2, 8], [6, 1, 2, 9]], 8),  # five tokens, in the first buffer
        ([1, 2, 5, 1, 2, 6, 1, 2], [[1, 2, 8]], 6),  # the prompt before the buffers, and its latest place
    ],
)
def test_the_longest_match_wins_then_what_is_written_then_the_first_buffer(
    prompt: list[int], buffers: list[list[int]], token: int
) -> None:
    drafter = NgramDrafter()
    drafter.begin(prompt, buffers)
    assert drafted(drafter, 1) == [token]


def test_no_more_than_allowed_is_proposed() -> None:
    drafter = NgramDrafter()
    drafter.begin([*range(99), *range(50)], [])
    assert [len(drafter.propose(most)) for most in (0, 1, 2, 3, 99)] == [0, 1, 2, 3, DRAFT_LENGTH]


def test_what_has_less_than_half_the_chance_that_pays_is_left_out() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 4, 1, 2, 3, 5, 8, 1, 2, 3], [])
    chances = drafter.propose(99).chances or ()
    paying = drafter.propose(99, price=Price(100.0, 0.004)).chances or ()
    assert paying == tuple(chance for chance in chances if chance >= 0.2)
    assert 0 < len(paying) < len(chances)


def test_only_what_fits_an_opening_is_copied() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 5, 6, 3, 1, 2, 7, 8, 4, 1, 2], [[1, 2, 9]])
    assert drafter.propose(2, Beginning(5)).token_ids == (5, 6)
    assert drafted(drafter)[:3] == [7, 8, 4]
    assert drafter.propose(2, Beginning(6)).token_ids == ()


def test_a_suggestion_that_nobody_took_is_drafted_again() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3], [])
    for token in (4, 5, 6, 7):
        drafter.observe(Draft(), Verdict((), token), NOTHING)
    drafter.begin([1, 2, 3, 9, 5], [])
    assert drafted(drafter) == [6, 7]


def test_a_reset_forgets() -> None:
    drafter = NgramDrafter()
    drafter.begin([1, 2, 3, 1, 2], [[1, 2, 3]])
    drafter.reset()
    drafter.begin([1, 2], [])
    assert drafted(drafter) == []


def test_a_draft_costs_little() -> None:
    """Behind a token that stands everywhere, among as many others as are known at most."""
    rng = np.random.default_rng(0)
    drafter = NgramDrafter()
    drafter.begin([*rng.zipf(1.3, 1200).clip(max=5000).tolist(), 1], [rng.zipf(1.3, 65_536).clip(max=5000).tolist()])
    times = []
    for _ in range(20):
        started = time.perf_counter()
        drafter.propose(16)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.002
