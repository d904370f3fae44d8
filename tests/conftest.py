"""Models for the tests: they come through the store, which test runs share, and are pulled when missing.

Property tests have no deadline for one example: a busy machine would fail them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from ghostdraft.models.acquire import pull
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.store import Store

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def tiny() -> Checkpoint:
    return pull(Store(), "tiny")


@pytest.fixture(scope="session")
def starter() -> Checkpoint:
    return pull(Store(), "starter")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty one, for tests that bring models in."""
    return Store(tmp_path / "home")


@pytest.fixture(autouse=True)
def _model_of_the_marker(request: pytest.FixtureRequest) -> None:
    for marker in request.node.iter_markers("model"):
        pull(Store(), marker.args[0])
