"""Costs of passes: lines between the points that were measured, and what is kept on disk."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.models.cost_file import NAME, CostFile
from ghostdraft.models.costs import GUESS, Costs, curve, interpolated

SECONDS = st.floats(1e-5, 10.0)
SAMPLES = st.dictionaries(st.integers(1, 64), st.lists(SECONDS, min_size=1, max_size=3), min_size=1, max_size=8)


@given(SAMPLES, st.integers(1, 100))
def test_wider_passes_never_cost_less(samples: dict[int, list[float]], rows: int) -> None:
    points = curve(samples)
    assert [count for count, _ in points] == sorted(samples)
    assert interpolated(points, rows) <= interpolated(points, rows + 1) + 1e-12
    assert all(seconds <= min(samples[count]) for count, seconds in points)


@given(SAMPLES)
def test_the_points_themselves_are_met(samples: dict[int, list[float]]) -> None:
    points = curve(samples)
    assert all(interpolated(points, rows) == pytest.approx(seconds) for rows, seconds in points)


def test_a_disturbed_pass_does_not_count_and_a_wider_one_bounds_the_narrower() -> None:
    assert curve({1: [0.5, 0.1], 2: [0.3], 4: [0.2]}) == ((1, 0.1), (2, 0.2), (4, 0.2))


def test_lines_go_from_point_to_point_and_on() -> None:
    points = ((1, 1.0), (3, 2.0), (5, 6.0))
    assert [interpolated(points, rows) for rows in range(7)] == [1.0, 1.0, 1.5, 2.0, 4.0, 6.0, 8.0]
    assert interpolated(points[:1], 9) == 1.0


@given(SAMPLES, SECONDS, st.integers(1, 64))
def test_a_prefill_pass_has_all_rows_that_its_time_allows(
    samples: dict[int, list[float]], seconds: float, most: int
) -> None:
    costs = replace(GUESS, prefill=curve(samples))
    rows = costs.prefill_rows(seconds, most)
    assert 1 <= rows <= most
    assert rows == 1 or interpolated(costs.prefill, rows) <= seconds
    assert rows == most or interpolated(costs.prefill, rows + 1) > seconds


def test_the_prefill_rate_is_that_of_the_fullest_pass() -> None:
    assert replace(GUESS, prefill=((16, 0.1), (64, 0.2))).prefill_rate == 320


@given(SAMPLES, SAMPLES)
def test_they_survive_json(verify: dict[int, list[float]], prefill: dict[int, list[float]]) -> None:
    costs = Costs(512, curve(verify), curve(prefill), 1e-5)
    assert Costs.of(json.loads(json.dumps(asdict(costs)))) == costs


@pytest.mark.parametrize("points", [(), ((2, 1.0), (1, 2.0)), ((1, 1.0), (1, 2.0)), ((1, 0.0),), ((1, -1.0),)])
def test_what_cannot_have_been_measured_is_refused(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="ascending rows"):
        replace(GUESS, verify=points)
    with pytest.raises(ValueError, match="ascending rows"):
        replace(GUESS, prefill=points)


MEASURED = Costs(512, ((1, 0.01), (8, 0.02)), ((64, 0.1),), 2e-5)


def test_costs_are_kept_by_what_they_depend_on(tmp_path: Path) -> None:
    one, other = CostFile(tmp_path / NAME, "avx2"), CostFile(tmp_path / NAME, "neon")
    assert one.read() is None
    one.write(MEASURED)
    other.write(GUESS)
    assert (one.read(), other.read()) == (MEASURED, GUESS)
    assert CostFile(tmp_path / NAME, "portable").read() is None
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"avx2": 1}', '{"avx2": {"context": 1}}', '{"avx2": {}}'])
def test_a_file_that_cannot_be_read_counts_as_empty_and_is_written_anew(content: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(content)
    file = CostFile(tmp_path / NAME, "avx2")
    assert file.read() is None
    file.write(MEASURED)
    assert file.read() == MEASURED
