"""What a row costs, learned from the passes, and what a draft keeps of itself for it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ghostdraft.drafting.draft_length import PassCost, worth_their_rows
from ghostdraft.drafting.types import Draft


def learned(one: float, row: float, tokens: float = 1.5, noise: float = 0.0, passes: int = 200) -> PassCost:
    """Of passes that take `one` seconds, and `row` more for each row behind the first."""
    rng = random.Random(0)
    cost = PassCost()
    for _ in range(passes):
        rows = rng.choice((1, 1, 2, 3, 5, 9))
        disturbed = rng.random() < noise
        cost.learn(rows, 1 + (rng.random() < tokens - 1), (one + row * (rows - 1)) * (20 if disturbed else 1))
    return cost


@pytest.mark.parametrize("scale", [1e-4, 1.0])
@pytest.mark.parametrize("row", [0.0, 0.03, 0.1, 0.4])
def test_it_finds_what_the_time_of_a_row_would_bring(row: float, scale: float) -> None:
    mean_pass = 1 + row * (21 / 6 - 1)
    expected = row * 1.5 / mean_pass
    assert learned(scale, row * scale).least_chance == pytest.approx(expected, abs=0.01, rel=0.25)


def test_a_disturbed_machine_does_not_derail_it() -> None:
    assert 0.05 < learned(1.0, 0.1, noise=0.05).least_chance < 0.25


def test_before_the_first_pass_and_without_variety_it_guesses() -> None:
    assert PassCost().least_chance == PassCost.GUESS
    cost = PassCost()
    for _ in range(100):
        cost.learn(1, 1, 0.01)
    assert cost.least_chance == pytest.approx(PassCost.GUESS)


def test_a_machine_where_rows_are_dear_stops_drafting_and_one_where_they_are_free_drafts_on() -> None:
    draft = Draft.line(range(4), chances=(0.6, 0.4, 0.2, 0.01))
    assert len(worth_their_rows(draft, learned(1.0, 1.0))) == 1
    assert len(worth_their_rows(draft, learned(1.0, 0.15))) == 3
    assert len(worth_their_rows(draft, learned(1.0, 0.0))) == 4


def test_the_rest_of_a_draft_stays_whole() -> None:
    tree = Draft((5, 6, 7, 8), (-1, -1, 0, 2), chances=(0.9, 0.8, 0.7, 0.0))
    assert worth_their_rows(tree, PassCost()) == Draft((5, 6, 7), (-1, -1, 0), chances=(0.9, 0.8, 0.7))


def test_drawn_tokens_and_tokens_without_chances_are_not_touched() -> None:
    drawn = Draft.line((1,), np.array([[0.99, 0.01]]))
    assert worth_their_rows(drawn, learned(1.0, 1.0)) is drawn
    fixed = Draft.line((1,))
    assert worth_their_rows(fixed, learned(1.0, 1.0)) is fixed
