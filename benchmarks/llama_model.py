"""llama.cpp behind `LanguageModel`, for the replay of typing: our prompts and stop rules, its passes.

Needs llama-cpp-python in this Python. Rows stand in a line; trees it does not do. A pass is never interrupted: asking
at each operation whether to go on would slow it down.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ghostdraft.benchmarks.llama_library import fill, open_model
from ghostdraft.models.rows import check_path, check_room, checked_parents
from ghostdraft.models.types import CacheState, FloatArray, IntArray, Pass, Shape

MAX_ROWS = 64  # more make no row cheaper


class LlamaModel:
    """A LanguageModel; `interrupt` takes a pass's time. Raises RuntimeError where llama.cpp cannot load the file or
    make a context."""

    def __init__(self, path: Path, shape: Shape, context: int, threads: int, flash: bool) -> None:
        self._llama: Any = importlib.import_module("llama_cpp")
        self._llama.llama_backend_init()
        self._model, self._context = open_model(self._llama, str(path), context, threads, flash)
        self._batch = self._llama.llama_batch_init(MAX_ROWS, 0, 1)
        self.shape, self.context, self.max_rows, self.length = shape, context, MAX_ROWS, 0
        self._parents: IntArray = np.empty(0, np.int32)  # of the last pass

    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        self._drop_rows()
        checked = checked_parents(len(token_ids), parents)
        if list(checked) != list(range(-1, len(token_ids) - 1)):
            raise ValueError("llama.cpp's rows stand in a line")
        check_room(len(token_ids), self.length, self.max_rows, self.context)
        fill(self._batch, token_ids, self.length, frozenset(logit_rows))
        self._decode()
        self._parents = checked
        return Pass(self._logits(logit_rows))

    def interrupt(self) -> None:
        """The pass goes on."""

    def keep(self, rows: Sequence[int]) -> None:
        check_path(rows, self._parents)
        self.length += len(rows)
        self._drop_rows()

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        self.length = length
        self._drop_rows()

    def save(self) -> CacheState:
        self._drop_rows()
        size = int(self._llama.llama_state_seq_get_size(self._context, 0))
        content = (ctypes.c_uint8 * size)()
        self._llama.llama_state_seq_get_data(self._context, content, size, 0)
        return CacheState(self.length, size, content)

    def restore(self, state: CacheState) -> None:
        self._llama.llama_state_seq_set_data(self._context, state.content, state.nbytes, 0)
        self.length = state.length
        self._drop_rows()

    def close(self) -> None:
        self._llama.llama_batch_free(self._batch)
        self._llama.llama_free(self._context)
        self._llama.llama_model_free(self._model)

    def _decode(self) -> None:
        status = self._llama.llama_decode(self._context, self._batch)
        if status:
            self._drop_rows()
            raise RuntimeError(f"llama_decode failed with {status}")

    def _logits(self, rows: Sequence[int]) -> FloatArray:
        """[rows, vocab]"""
        found = np.empty((len(rows), self.shape.vocab), np.float32)
        for at, row in enumerate(rows):
            found[at] = np.ctypeslib.as_array(self._llama.llama_get_logits_ith(self._context, row), (self.shape.vocab,))
        return found

    def _drop_rows(self) -> None:
        """What stands behind the kept ones."""
        self._llama.llama_memory_seq_rm(self._llama.llama_get_memory(self._context), 0, self.length, -1)
        self._parents = self._parents[:0]
