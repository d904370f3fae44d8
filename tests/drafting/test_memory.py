"""The scan against a search token by token, what is taken back, and what all of it costs per keystroke."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.memory import (
    AHEAD,
    BACK,
    MOST_BUFFER_TOKENS,
    MOST_TAKEN_BACK,
    PLACES,
    ROOM,
    Memory,
    Place,
    Source,
)

TOKENS = st.lists(st.integers(0, 3), max_size=40)
SOME = st.lists(st.integers(0, 3), min_size=1, max_size=40)
Found = tuple[int, int, Place]  # how many tokens before it are exactly the last ones, where it is, and what it is


def remembering(prompt: Sequence[int], output: Sequence[int] = (), buffers: Sequence[Sequence[int]] = ()) -> Memory:
    memory = Memory()
    memory.begin(prompt, buffers)
    memory.extend(output)
    return memory


def slow_places(prompt: Sequence[int], output: Sequence[int], buffers: Sequence[Sequence[int]]) -> list[Found]:
    """All places: the buffers count from the last to the first."""
    found, start, written = list[Found](), 0, [*prompt, *output]
    for text in (*reversed(list(dict.fromkeys(map(tuple, buffers)))), written):
        for at in range(1, len(text)):
            if text[at - 1] == written[-1]:
                found.append(slow_place(written, text, at, start))
        start += len(text)
    return found


def slow_place(written: list[int], text: Sequence[int], at: int, start: int) -> Found:
    same = [at >= d and len(written) >= d and text[at - d] == written[-d] for d in range(1, BACK + 1)]
    exactly = (*same, False).index(False)
    source = Source.WRITTEN if text is written else Source.BUFFER
    return exactly, start + at, Place(source, (exactly + sum(same)) / 2, list(text[at : at + AHEAD]))


@given(SOME, TOKENS, st.lists(TOKENS, max_size=3))
def test_places_are_those_that_a_slow_search_finds(
    prompt: list[int], output: list[int], buffers: list[list[int]]
) -> None:
    found = remembering(prompt, output, buffers).places()
    slow = slow_places(prompt, output, buffers)
    assert len(found) == min(PLACES, len(slow))
    best = sorted(slow, key=lambda one: one[:2])[-PLACES:]
    best.sort(key=lambda one: (one[2].likeness, one[1]))
    if len(slow) <= PLACES:
        assert found == [place for _, _, place in reversed(best)]
    assert [place.likeness for place in found] == sorted((place.likeness for place in found), reverse=True)
    longest = max((exactly for exactly, _, _ in slow), default=0)
    assert not slow or longest in {exactly for exactly, _, place in slow if place in found}


@given(SOME, SOME, SOME)
def test_output_may_come_in_any_pieces(prompt: list[int], one: list[int], other: list[int]) -> None:
    memory = remembering(prompt, one)
    memory.extend(other)
    assert memory.places() == remembering(prompt, one + other).places()


def test_output_may_be_long() -> None:
    memory = remembering([9, 7], [1] * ROOM)
    memory.extend([2] * (3 * ROOM))
    memory.extend([9])
    assert [place.line[:2] for place in memory.places()] == [[7, 1]]


def test_lines_alike_but_for_a_word_are_alike() -> None:
    first, second = remembering([1, 2, 3, 4, 5, 10, 7, 8, 9, 4, 5, 11, *range(20, 30), 1, 2, 0, 4, 5]).places()
    assert (first.line[0], first.likeness) == (10, (2 + 4) / 2)
    assert (second.line[0], second.likeness) == (11, (2 + 2) / 2)


@given(st.lists(st.tuples(SOME, TOKENS), min_size=1, max_size=4), st.lists(TOKENS, max_size=2))
def test_of_earlier_prompts_nothing_stays_but_what_was_taken_back(
    requests: list[tuple[list[int], list[int]]], buffers: list[list[int]]
) -> None:
    memory = Memory()
    for prompt, output in requests:
        memory.begin(prompt, buffers)
        memory.extend(output)
    prompt, output = requests[-1]
    fresh = remembering(prompt, output, buffers)
    if len(fresh.places()) + sum(len(p) + len(o) for p, o in requests[:-1]) <= PLACES:
        stayed = [place for place in memory.places() if place.source != Source.TAKEN_BACK]
        assert stayed == fresh.places()


def test_a_suggestion_that_nobody_took_is_found_by_what_stood_before_it() -> None:
    memory = remembering([1, 2, 3], [4, 5, 6])
    memory.begin([1, 2, 3, 7, 2, 3], ())
    place, *_ = (place for place in memory.places() if place.source == Source.TAKEN_BACK)
    assert place.line == [4, 5, 6]


def test_deleted_text_was_taken_back_and_a_prompt_that_goes_on_takes_nothing_back() -> None:
    memory = remembering([1, 2, 3, 4, 5])
    memory.begin([1, 2, 3], ())
    assert memory.places() == [Place(Source.TAKEN_BACK, 3.0, [4, 5])]
    memory = remembering([1, 2, 3], [4])
    memory.begin([1, 2, 3, 4, 3], ())
    assert [place.source for place in memory.places()] == [Source.WRITTEN]


@given(st.lists(SOME, max_size=3))
def test_what_was_taken_back_is_forgotten_in_time(prompts: list[list[int]]) -> None:
    memory = remembering([8], [9, 7])
    memory.begin([8], ())
    memory.begin([8], ())
    memory.extend([5] * MOST_TAKEN_BACK)
    for prompt in prompts:
        memory.begin([8, *prompt], ())
    memory.begin([9], ())
    assert all(place.line[0] != 7 for place in memory.places())


def test_a_closed_buffer_is_forgotten_and_an_edited_block_replaced() -> None:
    memory = remembering([1, 2], buffers=[[1, 2, 3], [5, 2, 4]])
    assert [place.line for place in memory.places()] == [[3], [4]]
    memory.begin([1, 2], [[1, 2, 3], [5, 2, 6]])
    assert [place.line for place in memory.places()] == [[3], [6]]
    memory.begin([1, 2], [[5, 2, 6]])
    assert [place.line for place in memory.places()] == [[6]]


def test_of_buffers_as_alike_the_first_comes_first() -> None:
    memory = remembering([1, 2], buffers=[[1, 2, 3], [1, 2, 4], [1, 2, 3]])
    assert [place.line for place in memory.places()] == [[3], [4]]


def test_a_buffer_beyond_the_limit_is_known_as_far_as_there_is_room() -> None:
    buffers = [[1, 2, 3, *[5] * MOST_BUFFER_TOKENS, 8, 9], [8, 9, 4]]
    assert remembering([1, 2], buffers=buffers).places()
    assert not remembering([8, 9], buffers=buffers).places()


def test_a_keystroke_in_a_large_file_costs_little() -> None:
    """As many tokens as are known at most, in blocks of 256, one of them changed, and a prompt that grew."""
    rng = np.random.default_rng(0)
    blocks = [tuple(rng.zipf(1.3, 256).clip(max=5000).tolist()) for _ in range(MOST_BUFFER_TOKENS // 256)]
    prompt = [*rng.integers(0, 5000, 3000).tolist(), 1]
    memory = remembering(prompt, buffers=blocks)
    times = []
    for key in range(7):
        blocks = [(*blocks[0][:128], key, *blocks[0][129:]), *blocks[1:]]
        prompt = [*prompt[:-2], key, 1]
        started = time.perf_counter()
        memory.begin(prompt, blocks)
        memory.places()
        times.append(time.perf_counter() - started)
    assert min(times) < 0.010
