"""The casts: a target with biases and tied weights, one with as many key heads and a head of its own, a tiny one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.drafting.lossless.cast import Cast, hire
from tests.models.small_models import shape


@pytest.fixture(scope="session")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Cast:
    return hire(shape("qwen2"), tmp_path_factory.mktemp("cast"))


@pytest.fixture(scope="session")
def other_cast(tmp_path_factory: pytest.TempPathFactory) -> Cast:
    return hire(shape("llama", heads=4, kv_heads=4, tied=False), tmp_path_factory.mktemp("other-cast"))


@pytest.fixture(scope="session")
def few_words(tmp_path_factory: pytest.TempPathFactory) -> Cast:
    """With a vocabulary so small that all of three tokens can be counted."""
    of = replace(shape("qwen2"), vocab=5, layers=2, hidden=64, heads=2, kv_heads=1, mlp=64)
    return hire(of, tmp_path_factory.mktemp("few-words"), known=4)
