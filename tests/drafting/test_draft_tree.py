"""Lines grown together: the tokens of the draft against all prefixes of the lines, and what their chances promise."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.draft_tree import DraftTree
from ghostdraft.drafting.types import Draft
from tests.fakes import paths

Line = list[tuple[int, float]]

LINES = st.lists(st.lists(st.tuples(st.integers(0, 2), st.floats(0.5, 1.0)), max_size=5), max_size=4)


def grown(lines: list[Line], most: int = 99) -> Draft:
    tree = DraftTree()
    for line in lines:
        tree.add(line)
    return tree.draft(most)


def test_what_begins_the_same_is_shared_and_the_likeliest_come_first() -> None:
    draft = grown([[(1, 0.5), (2, 0.8), (3, 0.5)], [(1, 0.9), (4, 0.9)], [(5, 0.5)]])
    assert paths(draft) == [(1,), (1, 2), (5,), (1, 2, 3), (1, 4)]
    assert draft.chances == pytest.approx((0.5, 0.4, 0.25, 0.2, 0.09))
    assert draft.probs is None


@given(LINES)
def test_no_path_is_there_that_no_line_takes_and_none_twice(lines: list[Line]) -> None:
    found = paths(grown(lines))
    prefixes = {tuple(token for token, _ in line[: i + 1]) for line in lines for i in range(len(line))}
    assert set(found) <= prefixes
    assert len(set(found)) == len(found)
    assert not lines or not lines[0] or found[0][0] in {line[0][0] for line in lines if line}


@given(LINES)
def test_only_tokens_with_next_to_no_chance_are_left_out(lines: list[Line]) -> None:
    """Worked out anew by recursion over the lines' first tokens."""
    expected: dict[tuple[int, ...], float] = {}

    def expect(below: list[Line], path: tuple[int, ...], whole: float) -> None:
        left, chances = 1.0, dict[int, float]()
        rests: defaultdict[int, list[Line]] = defaultdict(list)
        for line in (line for line in below if line):
            token, chance = line[0]
            if token not in chances and whole * left * chance >= DraftTree.LEAST:
                chances[token] = left * chance
                left *= 1 - chance
            if token in chances:
                rests[token].append(line[1:])
        for token, chance in chances.items():
            expected[*path, token] = whole * chance
            expect(rests[token], (*path, token), whole * chance)

    expect(lines, (), 1.0)
    draft = grown(lines)
    assert dict(zip(paths(draft), draft.chances or (), strict=True)) == pytest.approx(expected)


@given(LINES, st.integers(0, 8))
def test_the_fewer_are_the_likeliest_and_each_stands_behind_its_parent(lines: list[Line], most: int) -> None:
    whole, draft = grown(lines), grown(lines, most)
    assert draft == whole.first(most)
    assert draft.chances is not None
    assert list(draft.chances) == sorted(draft.chances, reverse=True)
    assert all(parent < i for i, parent in enumerate(draft.parents))


@given(LINES)
def test_chances_of_siblings_leave_room_for_each_other(lines: list[Line]) -> None:
    draft = grown(lines)
    sums: defaultdict[int, float] = defaultdict(float)
    for parent, chance in zip(draft.parents, draft.chances or (), strict=True):
        sums[parent] += chance
    for parent, total in sums.items():
        assert total <= (1.0 if parent < 0 else (draft.chances or ())[parent]) + 1e-9
