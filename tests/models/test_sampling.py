"""Logits to probabilities: order of the processors, ties, edges, extreme values, and speed on a large vocabulary."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ghostdraft.models.sampling import Probabilities, Sampling, best, draw, probabilities
from ghostdraft.models.types import FloatArray
from tests.reference import slow_probabilities

FINITE = st.floats(-50, 50, width=32)
LEVELS = st.sampled_from([-np.inf, -2.0, -1.0, 0.0, 1.0, 1.5])  # few levels: many ties
LOGITS = hnp.arrays(np.float32, st.integers(1, 400), elements=st.one_of(FINITE, LEVELS)).filter(
    lambda logits: bool(np.isfinite(logits.max()))
)
SAMPLING = st.builds(
    Sampling,
    temperature=st.sampled_from([0.05, 0.7, 1.0, 3.0]),
    top_k=st.sampled_from([0, 1, 2, 7, 300, 1000]),
    top_p=st.sampled_from([1e-9, 0.1, 0.5, 0.9, 0.999, 1.0]),
)


@given(LOGITS, SAMPLING)
def test_equals_the_definition(logits: FloatArray, sampling: Sampling) -> None:
    np.testing.assert_allclose(probabilities(logits, sampling), slow_probabilities(logits, sampling), atol=1e-12)


@given(LOGITS, SAMPLING)
def test_is_a_distribution_that_keeps_the_best_token(logits: FloatArray, sampling: Sampling) -> None:
    p = probabilities(logits, sampling)
    assert p.dtype == np.float64
    assert p.sum() == pytest.approx(1.0)
    assert p[best(logits)] == p.max() > 0
    if sampling.top_k:
        assert np.count_nonzero(p) <= sampling.top_k


def test_top_k_keeps_exactly_k_of_equal_tokens_the_first_ones() -> None:
    p = probabilities(np.zeros(1000, np.float32), Sampling(temperature=1.0, top_k=3))
    assert np.flatnonzero(p).tolist() == [0, 1, 2]


def test_top_p_of_equal_tokens_spans_more_than_the_first_ranked() -> None:
    p = probabilities(np.zeros(1000, np.float32), Sampling(temperature=1.0, top_p=0.9))
    assert np.flatnonzero(p).tolist() == list(range(900))


def test_top_p_stops_as_soon_as_it_is_reached_and_not_before() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.25], np.float32))
    assert np.count_nonzero(probabilities(logits, Sampling(1.0, top_p=0.5))) == 1
    assert np.count_nonzero(probabilities(logits, Sampling(1.0, top_p=0.51))) == 2


def test_temperature_comes_before_top_p() -> None:
    logits = np.log(np.array([0.6, 0.3, 0.1], np.float32))
    assert np.count_nonzero(probabilities(logits, Sampling(1.0, top_p=0.7))) == 2
    assert np.count_nonzero(probabilities(logits, Sampling(0.25, top_p=0.7))) == 1


def test_impossible_tokens_stay_impossible() -> None:
    logits = np.array([-np.inf, 0.0, -np.inf, 0.0], np.float32)
    assert probabilities(logits, Sampling(1.0)).tolist() == [0.0, 0.5, 0.0, 0.5]
    assert probabilities(logits, Sampling(1.0, top_k=3)).tolist() == [0.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1.0, 1e30])
def test_extreme_logits_and_temperatures_do_not_overflow(temperature: float) -> None:
    largest = np.finfo(np.float32).max
    p = probabilities(np.array([-largest, 0.0, largest], np.float32), Sampling(temperature))
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1.0)


def test_all_rows_at_once_equal_each_alone() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3, 50)).astype(np.float32)
    sampling = Sampling(0.8, top_k=20, top_p=0.9)
    p = probabilities(logits, sampling)
    assert p.shape == logits.shape
    assert (p[1, 2] == probabilities(logits[1, 2], sampling)).all()


def test_greedy_is_the_first_of_the_best() -> None:
    logits = np.array([0.0, 2.0, 2.0], np.float32)
    assert best(logits) == 1
    assert probabilities(logits, Sampling.GREEDY).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_without_a_largest_finite_value_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        probabilities(np.array([0.0, bad], np.float32), Sampling(1.0))
    with pytest.raises(ValueError, match="finite"):
        probabilities(np.array([-np.inf, -np.inf], np.float32), Sampling(1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"seed": -1},
    ],
)
def test_values_out_of_range_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampling(**wrong)  # type: ignore[arg-type]


@given(
    hnp.arrays(np.float64, st.integers(1, 50), elements=st.sampled_from([0.0, 1e-300, 0.1, 1.0])), st.integers(0, 99)
)
def test_a_token_of_weight_zero_is_never_drawn(weights: Probabilities, seed: int) -> None:
    weights[-1] = max(weights[-1], 1e-300)
    assert weights[draw(weights, np.random.default_rng(seed))] > 0


def test_draws_follow_the_weights_and_the_seed() -> None:
    weights = np.array([1.0, 0.0, 3.0])
    rng = np.random.default_rng(1)
    drawn = [draw(weights, rng) for _ in range(4000)]
    assert drawn.count(2) == pytest.approx(3000, abs=150)
    again = np.random.default_rng(1)
    assert drawn == [draw(weights, again) for _ in range(4000)]


@pytest.mark.parametrize("sampling", [Sampling(0.8), Sampling(0.8, top_k=40, top_p=0.95), Sampling(0.8, top_p=0.95)])
def test_a_vocabulary_of_152k_costs_less_than_sorting_it(sampling: Sampling) -> None:
    logits = np.random.default_rng(0).normal(scale=3, size=152_000).astype(np.float32)
    logits[:20] += 15
    assert fastest(lambda: probabilities(logits, sampling)) < fastest(lambda: np.argsort(-logits, kind="stable"))


def fastest(work: Callable[[], object]) -> float:
    """Seconds of processor time, the least of ten."""
    times = []
    for _ in range(10):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)
