"""What every engine asks of the rows that are to be kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.types import LanguageModel
from tests.models.recorded_graphs import RecordedGraphs
from tests.models.small_models import ours, run, shape, stored, tokens
from tests.models.test_graphs import graphed

CONTEXT = 16


def on_cpu(folder: Path) -> CpuModel:
    checkpoint = stored(shape(), folder)
    convert(checkpoint)
    return CpuModel(checkpoint.cpu_weights, CONTEXT, threads=1)


ENGINES: dict[str, Callable[[Path], LanguageModel]] = {
    "cpu": on_cpu,
    "torch": lambda _folder: ours(shape(), context=CONTEXT),
    "graphs": lambda _folder: graphed(RecordedGraphs(), context=CONTEXT),
}


@pytest.fixture(scope="module", params=ENGINES)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return ENGINES[request.param](tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("rows", [[1], [0, 2], [0, 1, 3], [1, 0], [0, 0], [4], [-1]])
def test_rows_that_are_no_path_are_refused(small: LanguageModel, rows: list[int]) -> None:
    small.truncate(0)
    small.forward(tokens(4), parents=[-1, 0, 1, 1])
    small.forward(tokens(4), parents=[-1, 0, -1, 2])
    with pytest.raises(ValueError, match="path"):
        small.keep(rows)
    assert small.length == 0


def test_keep_needs_a_pass_and_truncate_a_cache(small: LanguageModel) -> None:
    run(small, tokens(3))
    with pytest.raises(ValueError, match="path"):
        small.keep([0])
    with pytest.raises(ValueError, match="truncate"):
        small.truncate(4)


def test_a_refused_pass_leaves_nothing_to_keep(small: LanguageModel) -> None:
    small.truncate(0)
    small.forward(tokens(4))
    with pytest.raises(ValueError):
        small.forward(tokens(CONTEXT + 1))
    with pytest.raises(ValueError, match="path"):
        small.keep([0])
