"""Drafts against their chances worked out anew, path by path, and what makes a vote count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.memory import Place, Source
from ghostdraft.drafting.types import Draft
from ghostdraft.drafting.votes import ODDS, Votes
from tests.fakes import paths

PLACES = st.lists(
    st.builds(
        Place, st.sampled_from(Source), st.sampled_from([1.0, 2.5, 4.0]), st.lists(st.integers(0, 2), max_size=4)
    ),
    max_size=6,
)
LEAST = 0.05


def drafted(places: Sequence[Place], most: int = 99) -> Draft:
    return Votes(places, LEAST).draft(most)


def slow_chance(places: Sequence[Place], path: Sequence[int]) -> float:
    """Of a path, from its root on."""
    chance = 1.0
    for depth, token in enumerate(path):
        agreeing = [place for place in places if len(place.line) > depth and place.line[:depth] == [*path[:depth]]]
        votes = [slow_vote(agreeing, rank, depth) for rank in range(len(agreeing))]
        for_it = sum(vote for vote, place in zip(votes, agreeing, strict=True) if place.line[depth] == token)
        chance *= for_it / (1 + sum(votes))
    return chance


def slow_vote(agreeing: Sequence[Place], index: int, depth: int) -> float:
    place = agreeing[index]
    rank = 1 + sum(other.source == place.source for other in agreeing[:index])
    return ODDS[place.source] * (place.likeness + depth) / rank


@given(PLACES)
def test_all_paths_that_have_a_chance_are_drafted_with_it(places: list[Place]) -> None:
    everywhere = {tuple(place.line[: i + 1]) for place in places for i in range(len(place.line))}
    expected = {path: chance for path in everywhere if (chance := slow_chance(places, path)) >= LEAST}
    draft = drafted(places)
    assert dict(zip(paths(draft), draft.chances or (), strict=True)) == pytest.approx(expected)
    assert len(set(paths(draft))) == len(draft)


@given(PLACES, st.integers(0, 8))
def test_the_fewer_are_the_likeliest_and_each_stands_behind_its_parent(places: list[Place], most: int) -> None:
    whole, draft = drafted(places), drafted(places, most)
    assert draft == whole.first(most)
    assert draft.chances is not None
    assert list(draft.chances) == sorted(draft.chances, reverse=True)
    assert all(parent < i for i, parent in enumerate(draft.parents))


@given(PLACES)
def test_chances_side_by_side_leave_room_for_what_no_place_says(places: list[Place]) -> None:
    draft = drafted(places)
    sums: defaultdict[int, float] = defaultdict(float)
    for parent, chance in zip(draft.parents, draft.chances or (), strict=True):
        sums[parent] += chance
    for parent, total in sums.items():
        assert total < (1.0 if parent < 0 else (draft.chances or ())[parent])


def first_chance(*places: Place) -> float:
    return (drafted(places).chances or (0.0,))[0]


def test_what_makes_a_token_likelier() -> None:
    place, other = Place(Source.WRITTEN, 2.0, [1]), Place(Source.WRITTEN, 2.0, [2])
    alone = first_chance(place)
    assert first_chance(place._replace(likeness=3.0)) > alone
    assert first_chance(place, place) > alone
    assert first_chance(place, other) < alone
    assert first_chance(place._replace(source=Source.BUFFER)) < alone
    assert first_chance(place._replace(source=Source.TAKEN_BACK)) > alone


def test_a_drafted_token_counts_as_one_that_stands() -> None:
    first, second = drafted([Place(Source.WRITTEN, 4.0, [1, 2])]).chances or ()
    assert second / first == pytest.approx(first_chance(Place(Source.WRITTEN, 5.0, [2])))
