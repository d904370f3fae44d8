"""Chances mixed: a single source is believed as it is until more is known, and what comes is learned by source."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.mixing import SUREST, Mixer

CHANCES = st.floats(0.0, 1.0)


@given(CHANCES)
def test_at_first_a_single_source_is_taken_at_its_word(chance: float) -> None:
    expected = min(max(chance, SUREST), 1 - SUREST)
    assert Mixer().chance({"one": chance}) == pytest.approx(expected)


@given(st.floats(SUREST, 1 - SUREST), st.floats(SUREST, 1 - SUREST))
def test_two_that_agree_make_it_surer_than_either(one: float, other: float) -> None:
    mixed = Mixer().chance({"one": one, "other": other})
    assert 0.0 < mixed < 1.0
    if min(one, other) > 0.6:
        assert mixed > min(one, other)
    if max(one, other) < 0.4:
        assert mixed < max(one, other)


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from("abc"), CHANCES, min_size=1), st.booleans()), max_size=60))
def test_whatever_comes_a_chance_stays_one(events: list[tuple[dict[str, float], bool]]) -> None:
    mixer = Mixer()
    for said, came in events:
        mixer.learn(said, came)
        assert 0.0 <= mixer.chance(said) <= 1.0


def taught(says: Mapping[str, float], comes: float, times: int = 3000) -> float:
    mixer, rng = Mixer(), random.Random(0)
    for _ in range(times):
        mixer.learn(says, rng.random() < comes)
    return mixer.chance(says)


@pytest.mark.parametrize("comes", [0.1, 0.5, 0.9])
def test_it_learns_how_far_a_source_is_to_be_trusted(comes: float) -> None:
    assert taught({"one": 0.8}, comes) == pytest.approx(comes, abs=0.12)
    assert taught({"one": 0.8, "other": 0.3}, comes) == pytest.approx(comes, abs=0.12)


def test_the_one_who_knows_is_heard_and_the_other_is_not() -> None:
    mixer, rng = Mixer(), random.Random(0)
    for _ in range(3000):
        came = rng.random() < 0.5
        mixer.learn({"knows": 0.9 if came else 0.1, "guesses": rng.choice((0.1, 0.9))}, came)
    assert mixer.chance({"knows": 0.9, "guesses": 0.1}) > 0.85
    assert mixer.chance({"knows": 0.1, "guesses": 0.9}) < 0.15


def test_who_speaks_first_does_not_matter() -> None:
    mixer = Mixer()
    for _ in range(50):
        mixer.learn({"one": 0.8, "other": 0.4}, False)
    assert mixer.chance({"one": 0.8, "other": 0.4}) == pytest.approx(mixer.chance({"other": 0.4, "one": 0.8}))
