"""Several sources speak about one tree: what is the same is one node, and what they say of it is mixed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.mixing import Mixer
from ghostdraft.drafting.nodes import ROOT, Nodes
from ghostdraft.drafting.types import ANYTHING, Draft
from tests.fakes import Allowing, paths


def nodes() -> Nodes:
    return Nodes(Mixer(), ANYTHING)


def test_tokens_that_two_name_at_a_place_are_one_node() -> None:
    found = nodes()
    found.merge("one", Draft((1, 2, 3), (-1, 0, -1), chances=(0.6, 0.3, 0.2)))
    found.merge("other", Draft((3, 1, 2), (-1, -1, 1), chances=(0.5, 0.4, 0.1)))
    assert len(found.all) == 4
    assert found[found.children(ROOT)[1]].said == pytest.approx({"one": 0.6, "other": 0.4})
    assert found[found.children(found.children(ROOT)[1])[2]].said == pytest.approx({"one": 0.5, "other": 0.25})
    assert found[found.children(ROOT)[3]].said == pytest.approx({"one": 0.2, "other": 0.5})


def test_a_draft_of_one_source_comes_out_as_it_went_in() -> None:
    draft = Draft((1, 2, 5, 3), (-1, 0, -1, 1), chances=(0.6, 0.4, 0.3, 0.2))
    found = nodes()
    found.merge("one", draft)
    found.weigh()
    again = found.draft(9)
    assert paths(again) == [(1,), (1, 2), (5,), (1, 2, 3)]
    assert again.chances == pytest.approx(draft.chances)


def test_twins_and_impossible_tokens_do_no_harm() -> None:
    found = nodes()
    found.merge("one", Draft((1, 1, 2, 3), (-1, -1, 1, 2), chances=(0.5, 0.4, 0.0, 0.0)))
    found.weigh()
    assert paths(found.draft(9)) == [(1,), (1, 2), (1, 2, 3)]


def test_a_draft_without_chances_is_held_for_sure() -> None:
    found = nodes()
    found.merge("one", Draft((1, 2), (-1, 0)))
    found.weigh()
    assert found.draft(2).chances == pytest.approx((1.0, 1.0), abs=0.01)


def test_what_is_left_of_the_opening_stands_at_each_node() -> None:
    found = Nodes(Mixer(), Allowing({1, 2}, {3}))
    found.merge("one", Draft((1, 3, 4), (-1, 0, 1)))
    assert [node.left.met for node in found.all] == [False, False, True, True]


def test_the_token_that_came_is_believed_more_the_next_time_and_its_siblings_less() -> None:
    mixer = Mixer()
    for _ in range(300):
        found = Nodes(mixer, ANYTHING)
        found.merge("right", Draft((1, 2), (-1, 0), chances=(0.6, 0.4)))
        found.merge("wrong", Draft((5, 6), (-1, 0), chances=(0.6, 0.4)))
        found.learn([1, 2, 9])
    found.weigh()
    right, wrong = (found[found.children(ROOT)[token]].chance for token in (1, 5))
    assert right > 0.6 > 0.5 > wrong


@given(st.lists(st.integers(0, 3), max_size=6))
def test_learning_from_what_nobody_named_changes_nothing_behind_it(came: list[int]) -> None:
    """What is named behind a token that did not come was never tried."""
    mixer = Mixer()
    found = Nodes(mixer, ANYTHING)
    found.merge("one", Draft((9, 8), (-1, 0), chances=(0.7, 0.3)))
    deep = dict(found[found.children(found.children(ROOT)[9])[8]].said)
    found.learn(came)
    once = Mixer()
    if came:
        once.learn({"one": 0.7}, False)
    assert mixer.chance(deep) == once.chance(deep)
