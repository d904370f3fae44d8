"""What of a model's file counts as read for each token."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghostdraft.benchmarks.bandwidth import Weights
from ghostdraft.models.cpu.convert import convert, read_plan
from tests.models.small_models import shape, stored


@pytest.mark.parametrize("tied", [True, False])
def test_the_embedding_is_read_only_where_it_is_the_head_too(tied: bool, tmp_path: Path) -> None:
    checkpoint = stored(shape(tied=tied), tmp_path)
    convert(checkpoint)
    path = checkpoint.cpu_weights
    _, tensors, start = read_plan(path)
    table = tensors["embedding.weight"].size
    assert Weights(path, 2).bytes == path.stat().st_size - start - (0 if tied else table)
    assert Weights(path, 2).seconds() > 0
