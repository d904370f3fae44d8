"""The worker that drives llama.cpp, with a stand-in for its library: what it is asked for, and what it says back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ghostdraft.benchmarks.llama_peer import Llama, PeerFailed
from ghostdraft.benchmarks.peers import Theirs

LIBRARY = '''
"""A llama_cpp whose Q8_0 without flash attention is fast, and that fails where positions do not follow each other."""
import ctypes, time
from types import SimpleNamespace as Some

__version__ = "0"
PAUSES = {("file.gguf", 0): 0.004, ("file.gguf", 1): 0.005, ("q8", 0): 0.001, ("q8", 1): 0.003}

class Settings(ctypes.Structure):
    _fields_ = [("ftype", ctypes.c_int), ("allow_requantize", ctypes.c_bool), ("nthread", ctypes.c_int)]

def llama_backend_init(): pass
def llama_print_system_info(): return b"STAND-IN = 1 | "
def llama_model_default_params(): return None
def llama_model_quantize_default_params(): return Settings()
def llama_model_quantize(path, out, settings):
    open(out.decode(), "wb").write(b"q8")
    return 0
def llama_model_load_from_file(path, settings):
    return None if b"broken" in path else ("q8" if b"q8" in path else "file.gguf")
def llama_context_default_params():
    return Some(n_ctx=0, n_threads=0, n_threads_batch=0, n_batch=2048, flash_attn_type=-1)
def llama_init_from_model(model, settings): return Some(pause=PAUSES[model, settings.flash_attn_type], length=0)
def llama_batch_init(size, embd, sequences):
    return Some(n_tokens=0, token=[0] * size, pos=[0] * size, n_seq_id=[0] * size, seq_id=[[0] for _ in range(size)],
                logits=[0] * size)
def llama_get_memory(context): return context
def llama_memory_seq_rm(context, sequence, start, end): context.length = start
def llama_get_logits_ith(context, row): return None
def llama_decode(context, batch):
    if batch.pos[0] != context.length:
        return -1
    context.length += batch.n_tokens
    time.sleep(context.pause)
    return 0
'''


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "llama_cpp.py").write_text(LIBRARY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return tmp_path


def peer(folder: Path, gguf: str = "file.gguf") -> Llama:
    return Llama(sys.executable, folder / gguf, folder / "q8", context=2048, threads=2)


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
        assert llama.ask("system") == "llama-cpp-python 0, STAND-IN = 1"


def test_a_file_that_llama_cpp_refuses_is_told(library: Path) -> None:
    with pytest.raises(PeerFailed, match=r"cannot load .*broken\.gguf"):
        peer(library, "broken.gguf")


def test_where_llama_cpp_is_missing_the_mend_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "llama_cpp.py").write_text("raise ImportError('not here')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    with pytest.raises(PeerFailed, match="Install llama-cpp-python"):
        peer(tmp_path)
