"""llama.cpp behind the protocol of models, with a stand-in for its library that knows what each token followed."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ghostdraft.benchmarks.llama_model import LlamaModel
from ghostdraft.benchmarks.replay_llama_server import LINES_BEFORE, LINES_BEHIND, near_lines
from ghostdraft.completion.types import Snapshot
from ghostdraft.models.types import Shape

VOCAB = 11
SHAPE = Shape("llama", 1, 32, 1, 1, 32, 32, VOCAB, 64, 10_000.0, 1e-5, qkv_bias=False, tied=True)


class Library:
    """A llama_cpp whose logits at a row are a hash of all tokens up to it; positions must follow each other."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.freed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_free"):
            return lambda *_: self.freed.append(name)
        return lambda *_: SimpleNamespace()

    def llama_batch_init(self, size: int, _embd: int, _sequences: int) -> Any:
        rows: list[list[int]] = [[0] for _ in range(size)]
        return SimpleNamespace(
            n_tokens=0, token=[0] * size, pos=[0] * size, n_seq_id=[0] * size, seq_id=rows, logits=[0] * size
        )

    def llama_decode(self, _: Any, batch: Any) -> int:
        self.first, self.batch = len(self.tokens), batch
        if list(batch.pos[: batch.n_tokens]) != list(range(self.first, self.first + batch.n_tokens)):
            return -1
        self.tokens += batch.token[: batch.n_tokens]
        return 0

    def llama_get_logits_ith(self, _: Any, row: int) -> Any:
        assert self.batch.logits[row]
        logits = expected(self.tokens[: self.first + row + 1]).tolist()
        return (ctypes.c_float * VOCAB)(*logits)

    def llama_memory_seq_rm(self, _memory: Any, _sequence: int, start: int, _end: int) -> None:
        del self.tokens[start:]

    def llama_state_seq_get_size(self, _: Any, _sequence: int) -> int:
        return len(self.tokens)

    def llama_state_seq_get_data(self, _: Any, content: Any, size: int, _sequence: int) -> None:
        content[:size] = self.tokens

    def llama_state_seq_set_data(self, _: Any, content: Any, size: int, _sequence: int) -> None:
        self.tokens = list(content[:size])


def expected(tokens: list[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(tokens).random(VOCAB, np.float32)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> LlamaModel:
    monkeypatch.setitem(sys.modules, "llama_cpp", Library())  # type: ignore[arg-type]
    return LlamaModel(Path("any.gguf"), SHAPE, 64, 2, flash=False)


def test_rows_follow_what_is_kept(model: LlamaModel) -> None:
    model.forward([1, 2, 3])
    model.keep(range(2))
    found = model.forward([4, 5], [0, 1]).logits
    assert np.array_equal(found, [expected([1, 2, 4]), expected([1, 2, 4, 5])])


def test_a_cache_that_was_saved_comes_back(model: LlamaModel) -> None:
    model.forward([1, 2])
    model.keep(range(2))
    saved = model.save()
    model.truncate(1)
    model.forward([7])
    model.keep([0])
    model.restore(saved)
    assert model.length == 2
    assert np.array_equal(model.forward([4], [0]).logits[0], expected([1, 2, 4]))


def test_trees_are_refused(model: LlamaModel) -> None:
    with pytest.raises(ValueError, match="line"):
        model.forward([1, 2], parents=[-1, -1])


@pytest.mark.parametrize(
    ("refused", "told", "freed"),
    [
        ("llama_model_load_from_file", r"cannot load any\.gguf", []),
        ("llama_init_from_model", r"context of 64 .* any\.gguf", ["llama_model_free"]),
    ],
)
def test_what_llama_cpp_refuses_is_told(
    monkeypatch: pytest.MonkeyPatch, refused: str, told: str, freed: list[str]
) -> None:
    library = Library()
    setattr(library, refused, lambda *_: None)
    monkeypatch.setitem(sys.modules, "llama_cpp", library)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=told):
        LlamaModel(Path("any.gguf"), SHAPE, 64, 2, flash=False)
    assert library.freed == freed


def test_what_was_made_is_freed(model: LlamaModel) -> None:
    model.close()
    assert sys.modules["llama_cpp"].freed == ["llama_batch_free", "llama_free", "llama_model_free"]


def test_llama_vim_sends_the_lines_around_the_cursor() -> None:
    lines = [f"line {number}" for number in range(1000)]
    text = "\n".join(lines)
    seen = near_lines(Snapshot("file:///a.py", 1, "python", text, text.index("line 500") + len("line 5"), ()))
    assert seen.text[: seen.cursor].split("\n") == [*lines[501 - LINES_BEFORE : 500], "line 5"]
    assert seen.edits is None
    assert seen.text[seen.cursor :].split("\n") == ["00", *lines[501 : 500 + LINES_BEHIND]]
