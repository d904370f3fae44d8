"""How long a draft is: against brute force, by what rows cost, and by what was accepted before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ghostdraft.drafting.draft_length import DraftLength, Patience, Took, best_length, step_seconds
from ghostdraft.drafting.types import Draft
from ghostdraft.models.costs import GUESS, Costs

CHANCES = st.lists(st.floats(0.01, 0.99), max_size=5).map(
    lambda conditional: list(accumulate(conditional, float.__mul__))
)
ROWS = st.lists(st.floats(0.0, 0.5), min_size=5, max_size=5)  # seconds of each row more
COSTS = st.builds(
    lambda one, rows: Costs(512, tuple(enumerate(accumulate(rows, initial=one), start=1)), GUESS.prefill, 0.001),
    st.floats(0.01, 1.0),
    ROWS,
)


def costs(one: float, row: float) -> Costs:
    """Of passes that take `one` seconds, and `row` more for each row behind the first."""
    return Costs(512, ((1, one), (17, one + 16 * row)), GUESS.prefill)


def per_second(drafts: Sequence[Sequence[float]], lengths: Sequence[int], costs: Costs) -> float:
    """Expected tokens over time where each of these drafts comes equally often and is cut to its length."""
    tokens = sum(1 + sum(chances[:length]) for chances, length in zip(drafts, lengths, strict=True))
    return tokens / sum(step_seconds(costs, length) for length in lengths)


@given(st.lists(CHANCES, min_size=1, max_size=4), COSTS)
def test_the_lengths_bring_the_most_tokens_per_second_of_all(drafts: list[list[float]], costs: Costs) -> None:
    choices = product(*(range(len(chances) + 1) for chances in drafts))
    most = max(per_second(drafts, lengths, costs) for lengths in choices)
    chosen = [best_length(chances, costs, most) for chances in drafts]
    assert per_second(drafts, chosen, costs) == pytest.approx(most)


def test_a_good_draft_is_not_cut_where_its_own_rate_is_best() -> None:
    """Among steps without a draft the fourth token still brings more in its time than they do."""
    drafts, row = [[0.9, 0.8, 0.6, 0.3], [], []], costs(1.0, 0.2)
    alone = [max(range(len(c) + 1), key=lambda n, c=c: per_second([c], [n], row)) for c in drafts]
    rate = per_second(drafts, alone, row)
    chosen = [best_length(chances, row, rate) for chances in drafts]
    assert (alone, chosen) == ([3, 0, 0], [4, 0, 0])
    assert per_second(drafts, chosen, row) > rate


@given(CHANCES, COSTS, st.floats(0.1, 1000))
def test_where_time_is_worth_more_drafts_are_not_longer(chances: list[float], costs: Costs, rate: float) -> None:
    assert best_length(chances, costs, 2 * rate) <= best_length(chances, costs, rate)


@given(CHANCES, st.floats(1e-4, 1.0), st.floats(0.0, 1.0), st.floats(0.1, 100))
def test_cheaper_rows_make_no_draft_shorter(chances: list[float], one: float, row: float, rate: float) -> None:
    assert best_length(chances, costs(one, row * one), rate) <= best_length(chances, costs(one, row * one / 2), rate)


def drafted(length: DraftLength, chance: float = 0.9) -> int:
    return len(length.worth(Draft.line(range(16), chances=[chance ** (i + 1) for i in range(16)])))


def test_a_machine_where_rows_are_dear_drafts_nothing_and_one_where_they_are_free_drafts_all() -> None:
    assert drafted(DraftLength(costs(0.01, 0.01))) == 0
    assert 3 <= drafted(DraftLength(costs(0.01, 0.003))) < 16
    assert drafted(DraftLength(costs(0.01, 0.0))) == 16


def test_a_step_in_the_costs_is_used_to_its_end() -> None:
    """Rows 5 to 8 cost nothing once the fifth is paid for."""
    steps = Costs(512, ((1, 1.0), (4, 1.0), (5, 1.4), (8, 1.4), (9, 3.0)), GUESS.prefill)
    assert best_length([0.9**n for n in range(1, 9)], steps, rate=1.5) == 7
    assert best_length([0.3**n for n in range(1, 9)], steps, rate=1.5) == 3


def took(length: DraftLength, rows: int, drafting: float = 0.0, load: float = 1.0) -> Took:
    """As the costs say, on a machine under so much load."""
    return Took(load * drafting, load * length.costs.verify_seconds(rows), rows)


def learned(length: DraftLength, right: float, steps: int = 300) -> DraftLength:
    """Drafts of 8 tokens, whose next token is `right` so often, held by their drafter for right 70 % of the time."""
    rng = random.Random(0)
    draft = Draft.line(range(8), chances=[0.7 ** (i + 1) for i in range(8)])
    for _ in range(steps):
        length.learn(draft, next((i for i in range(8) if rng.random() > right), 8), took(length, 9))
    return length


def test_what_was_accepted_lately_counts() -> None:
    row = costs(0.01, 0.002)
    as_said, better, worse = (learned(DraftLength(row), right) for right in (0.7, 0.9, 0.2))
    assert as_said.trust == pytest.approx(1.0, abs=0.15)
    assert worse.trust < 0.3 < 1.5 < better.trust
    assert drafted(worse, 0.7) < drafted(as_said, 0.7) <= drafted(better, 0.7)


def test_who_drafts_nothing_for_a_while_tries_again() -> None:
    length = learned(DraftLength(costs(0.01, 0.002)), right=0.0)
    before = length.trust
    for _ in range(300):
        length.learn(Draft(), 0, took(length, 1))
    assert before < 0.4 < 0.9 < length.trust


def test_the_rate_is_that_of_all_steps_and_at_first_that_of_one_token_decoding() -> None:
    length = DraftLength(costs(0.01, 0.0))
    assert length.rate == pytest.approx(100)
    for _ in range(1000):
        length.learn(Draft.line(range(4), chances=(0.9, 0.8, 0.7, 0.6)), 2, took(length, 5))
    assert length.rate == pytest.approx(300, rel=0.15)


@given(st.floats(1e-6, 1e3), COSTS, CHANCES)
def test_units_of_time_do_not_matter(scale: float, costs: Costs, chances: list[float]) -> None:
    values = [per_second([chances], [length], costs) for length in range(len(chances) + 1)]
    assume(len(values) < 2 or sorted(values)[-1] > 1.001 * sorted(values)[-2])
    scaled = Costs(512, tuple((rows, scale * seconds) for rows, seconds in costs.verify), GUESS.prefill, 0.001 * scale)
    rate = max(values)
    assert best_length(chances, scaled, rate / scale) == best_length(chances, costs, rate)


def test_the_rest_of_a_draft_stays_whole() -> None:
    tree = Draft((5, 6, 7, 8), (-1, -1, 0, 2), chances=(0.9, 0.8, 0.7, 0.0))
    assert DraftLength(GUESS).worth(tree) == Draft((5, 6, 7), (-1, -1, 0), chances=(0.9, 0.8, 0.7))


def test_drawn_tokens_and_tokens_without_chances_are_not_touched() -> None:
    length = DraftLength(costs(1.0, 1.0))
    drawn = Draft.line((1,), np.array([[0.99, 0.01]]))
    assert length.worth(drawn) is drawn
    fixed = Draft.line((1,))
    assert length.worth(fixed) is fixed
    length.learn(fixed, 1, took(length, 1 + len(fixed)))
    assert length.trust == 1.0


def test_rows_that_ride_along_make_drafted_ones_dearer_where_more_rows_are() -> None:
    few_are_cheap = Costs(512, ((1, 1.0), (4, 1.0), (5, 2.0)), GUESS.prefill)
    assert [best_length([0.5, 0.4, 0.3], few_are_cheap, 1.0, riding) for riding in range(4)] == [3, 2, 1, 0]


def steps_asked(steps: int, gain: float, patience: Patience | None = None) -> int:
    """In how many of so many steps somebody is asked who brings so much each time."""
    patience, asked = patience or Patience(), 0
    for _ in range(steps):
        if patience.asks():
            asked += 1
            patience.learn(gain)
    return asked


@pytest.mark.parametrize("loss", [0.05, 0.3, 1.0, 3.0])
def test_who_brings_nothing_costs_little(loss: float) -> None:
    """Of the time of 512 steps."""
    assert steps_asked(512, -loss) * loss <= 0.05 * 512


def test_who_brings_something_is_always_asked() -> None:
    assert steps_asked(512, 0.1) == 512


def test_patience_comes_back() -> None:
    patience = Patience()
    steps_asked(5000, -1.0, patience)
    steps_asked(2000, 1.0, patience)
    assert steps_asked(64, 1.0, patience) == 64
    assert 0 < steps_asked(64, -1.0, patience) < 10


@pytest.mark.parametrize("load", [1.0, 4.0])
def test_a_drafter_that_does_not_pay_is_left_alone_by_its_time(load: float) -> None:
    """It drafts one token a step, never right, and takes as long as a third of a step."""
    length, asked = DraftLength(costs(0.01, 0.002)), 0
    for _ in range(512):
        if length.asks():
            asked += 1
            length.learn(Draft.line([1], chances=[0.5]), 0, took(length, 2, 0.003, load))
    assert 0 < asked < 60


def test_a_row_costs_what_the_first_few_do() -> None:
    assert DraftLength(costs(0.01, 0.002)).price.row == pytest.approx(0.002)
    assert DraftLength(costs(0.01, 0.002)).price.token == pytest.approx(0.2)


def test_under_load_time_is_worth_less_and_a_row_as_many_tokens() -> None:
    calm, loaded = DraftLength(costs(0.01, 0.002)), DraftLength(costs(0.01, 0.002))
    for length, load in ((calm, 1.0), (loaded, 3.0)):
        for _ in range(300):
            length.learn(Draft.line(range(4), chances=(0.9, 0.8, 0.7, 0.6)), 2, took(length, 5, 0.001, load))
    assert loaded.price.rate == pytest.approx(calm.price.rate / 3, rel=0.02)
    assert loaded.price.token == pytest.approx(calm.price.token, rel=0.02)
    assert loaded.trust == calm.trust
