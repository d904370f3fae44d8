"""The engine's variants for other machines than this one, their intrinsics emulated in plain C by SIMDe."""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu import library, model
from ghostdraft.models.cpu.blocks import Q8_0
from ghostdraft.models.cpu.convert import convert, read_plan
from ghostdraft.models.cpu.model import CpuModel
from tests.models.small_models import run, stored_gguf, tokens

EMULATION = Path(__file__).with_name("emulation.h")
SIMDE = Path("/usr/include/simde/x86/avx512.h")
CACHE = Path(__file__).parents[2] / ".cache" / "emulated"
VARIANTS = ("avx512", "avxvnni", "avx2", "neon")
LENGTH = 100  # tokens: more than one of attention's exact sums takes
KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")


@pytest.fixture(scope="module")
def emulated() -> ctypes.CDLL:
    """Compiled once for each state of the sources."""
    sources = [*sorted(library.FOLDER.glob("*.[ch]")), EMULATION]
    fingerprint = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = CACHE / f"engine-{fingerprint}.so"
    if not target.exists():
        problem = library.compile_engine(["cc", "-w"], target, ("-O1", f'-DENGINE_EMULATION="{EMULATION}"'))
        assert problem is None, problem
    return ctypes.CDLL(str(target))


@pytest.fixture(scope="module", params=KINDS)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    checkpoint = stored_gguf(request.param, tmp_path_factory.mktemp("small"))
    convert(checkpoint)
    return checkpoint


@pytest.fixture
def opened(emulated: ctypes.CDLL, small: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[partial[CpuModel]]:
    monkeypatch.setattr(model, "library", lambda: emulated)
    return partial(CpuModel, small.cpu_weights, 128, 2)


pytestmark = [
    pytest.mark.skipif(not SIMDE.exists(), reason="needs SIMDe's headers, on Debian: apt-get install libsimde-dev"),
    *([] if sys.platform == "linux" else [pytest.mark.platform]),
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_gives_what_plain_c_gives(opened: partial[CpuModel], small: Checkpoint, variant: str) -> None:
    expected, found = run(opened(variant="portable"), tokens(LENGTH)), run(opened(variant=variant), tokens(LENGTH))
    # rounding moves an int8 here and there; before quants of 8 bits AVX2 rounds more coarsely than others
    coarse = variant == "avx2" and read_plan(small.cpu_weights)[1]["embedding.weight"].form == Q8_0
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < (0.1 if coarse else 0.02)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_are_bitwise_their_own(opened: partial[CpuModel], variant: str) -> None:
    alone = run(opened(variant=variant), tokens(LENGTH), chunk=1)
    for chunk in (2, 3, 5, 8, 23):
        assert np.array_equal(run(opened(variant=variant), tokens(LENGTH), chunk), alone)
