"""The CPU engine on real weights against the same model in float32: quantising must hardly change what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ghostdraft.benchmarks import fidelity
from ghostdraft.benchmarks.report import Bar
from ghostdraft.models.checkpoint import Checkpoint

TOKENS = 20_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["tiny", "starter"])
def test_the_engine_is_faithful_to_float32(name: str, request: pytest.FixtureRequest) -> None:
    checkpoint: Checkpoint = request.getfixturevalue(name)
    with Bar("") as bar:
        rows = fidelity.measure(checkpoint, TOKENS, ["cpu"], Path(sys.executable), bar)
    (measured,) = (row for row in rows if (row.engine, row.reference) == ("cpu", "transformers"))
    assert measured.agreement >= 0.965
    assert measured.nll_rise <= 0.006
