"""The worker that drives llama.cpp, with a stand-in for its library: what it is asked for, and what it says back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghostdraft.benchmarks.json_lines import PeerFailed
from ghostdraft.benchmarks.llama_peer import Llama
from ghostdraft.benchmarks.passes import Theirs
from tests.benchmarks.peer_stand_ins import LIBRARY, bindings, environment


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with the stand-in in the place of llama-cpp-python's bindings."""
    return bindings(tmp_path, LIBRARY)


def peer(folder: Path, gguf: str = "file.gguf") -> Llama:
    return Llama(folder / gguf, folder / "q8", context=2048, threads=2, environment=environment(folder))


def test_the_fastest_variant_stands_for_llama_cpp(library: Path) -> None:
    with peer(library) as llama:
        assert llama.variants == ["GGUF", "GGUF, flash", "Q8_0", "Q8_0, flash"]
        theirs = Theirs(llama, list(range(32)))
        assert set(theirs.fastest.values()) == {"Q8_0"}
        assert 1.0 <= theirs.step(4) < 100.0
        assert theirs.prefill() < theirs.step(1)


def test_steps_leave_the_cache_as_it_was(library: Path) -> None:
    with peer(library) as llama:
        llama.ask("prefill", name="GGUF", tokens=[1, 2, 3])
        assert len(llama.ask("step", name="GGUF", tokens=[4, 5], repeat=3)) == 3
        assert len(llama.ask("step", name="GGUF", tokens=[4], repeat=2)) == 2
        assert llama.ask("system") == "STAND-IN = 1"


def test_a_file_that_llama_cpp_refuses_is_told(library: Path) -> None:
    with pytest.raises(PeerFailed, match=r"cannot load .*broken\.gguf"):
        peer(library, "broken.gguf")


def test_where_llama_cpp_is_missing_the_mend_is_told(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="pip install"):
        peer(bindings(tmp_path, "raise ImportError('not here')"))
