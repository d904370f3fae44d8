"""The CPU engine's Python face: hands the weights' addresses to C, keeps the protocol of `LanguageModel`.

The C code does the whole forward; this file only checks what goes in. Knows nothing of text.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_void_p
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from ghostdraft.models.cpu.library import library
from ghostdraft.models.cpu.weights import Config, Configuration, Weights, read_weights
from ghostdraft.models.rows import check_path
from ghostdraft.models.types import (
    CacheState,
    EngineUnavailable,
    FloatArray,
    IntArray,
    Interrupted,
    Pass,
    Shape,
)

Bytes = npt.NDArray[np.uint8]

MAX_ROWS = 64
MAX_THREADS = 64
INTERRUPTED = -2  # what a pass gives back that was
VARIANT = "GHOSTDRAFT_CPU_VARIANT"  # environment: forces one of `variants()`


def _engine() -> ctypes.CDLL:
    engine = library()
    engine.gd_variants.restype = POINTER(c_char_p)
    engine.gd_open.argtypes, engine.gd_open.restype = (POINTER(Config), c_char_p, c_void_p), c_void_p
    engine.gd_close.argtypes, engine.gd_close.restype = (c_void_p,), None
    engine.gd_forward.argtypes = (*[c_void_p] * 4, c_int32, c_void_p, c_int32, c_int32, c_void_p)
    engine.gd_hidden.argtypes, engine.gd_hidden.restype = (c_void_p, c_int32, c_void_p), None
    engine.gd_interrupt.argtypes, engine.gd_interrupt.restype = (c_void_p,), None
    engine.gd_keep.argtypes, engine.gd_keep.restype = (c_void_p, c_void_p, c_int32), None
    engine.gd_truncate.argtypes, engine.gd_truncate.restype = (c_void_p, c_int32), None
    engine.gd_length.argtypes = (c_void_p,)
    engine.gd_state_bytes.argtypes, engine.gd_state_bytes.restype = (c_void_p,), c_size_t
    engine.gd_save.argtypes, engine.gd_save.restype = (c_void_p, c_void_p), None
    engine.gd_restore.argtypes, engine.gd_restore.restype = (c_void_p, c_void_p, c_int32), None
    return engine


def variants() -> list[str]:
    """The instruction sets compiled in that this machine runs, best first. Raises EngineUnavailable."""
    names = _engine().gd_variants()
    found: list[str] = []
    while names[len(found)] is not None:
        found.append(names[len(found)].decode())
    return found


def default_threads() -> int:
    """As many as there are physical cores that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed, MAX_THREADS))


class CpuModel:
    """A `LanguageModel` in C. `weights`: themselves, or the file that holds them. `context` in tokens sizes the KV
    cache; `variant` is one of `variants()`. `beside`: an open model whose threads run this one too, never both at once.

    A row's logits are independent of the other rows, of the chunking and of its place in the tree bit for bit.
    Not for two threads at once. Raises WeightsCorrupt, EngineUnavailable.
    """

    def __init__(
        self,
        weights: Weights | Path,
        context: int,
        threads: int | None = None,
        variant: str | None = None,
        beside: CpuModel | None = None,
    ) -> None:
        self._engine = _engine()
        self.variant: str = beside.variant if beside else chosen_variant(variant)
        self.threads: int = beside.threads if beside else min(threads or default_threads(), MAX_THREADS)
        self.weights = read_weights(weights) if isinstance(weights, Path) else weights
        self._shape, self._context = self.weights.shape, context
        self._outputs = self.weights.head.rows
        self._inputs = self._inputs_wanted()
        self._logits: FloatArray = np.empty((MAX_ROWS, -(-self._outputs // 16) * 16), np.float32)
        self._parents: Sequence[int] = ()  # of the last pass
        self._handle = self._open(beside)

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def context(self) -> int:
        return self._context

    @property
    def length(self) -> int:
        return int(self._engine.gd_length(self._handle))

    @property
    def max_rows(self) -> int:
        return MAX_ROWS

    def forward(
        self,
        token_ids: Sequence[int] | IntArray,
        logit_rows: Sequence[int] = (),
        parents: Sequence[int] | None = None,
        inputs: FloatArray | None = None,
        layers: int | None = None,
    ) -> Pass:
        """See `LanguageModel.forward`. What it gives is valid until the next pass.

        `inputs` [n, ...]: what a model wants that fuses them with the embeddings of the tokens; or [n, hidden] for one
        without embeddings, to which tokens mean nothing. `layers`: through the first so many only; a later row must not
        stand on rows that fewer layers ran.
        """
        tokens, rows = np.asarray(token_ids, np.int32), np.asarray(logit_rows, np.int32)
        tree = None if parents is None else np.asarray(parents, np.int32)
        added = None if inputs is None else np.ascontiguousarray(inputs, np.float32)
        self._parents = ()
        depth = self._shape.layers if layers is None else layers
        self._check(tokens, rows, tree, added, depth)
        status = self._engine.gd_forward(
            self._handle, tokens.ctypes.data, _address(tree), _address(added), len(tokens), rows.ctypes.data, len(rows),
            depth, self._logits.ctypes.data,
        )  # fmt: skip
        if status == INTERRUPTED:
            raise Interrupted
        if status != 0:
            raise ValueError("a row's parent must stand before it")
        self._parents = range(-1, len(tokens) - 1) if parents is None else parents
        return Pass(self._logits[: len(rows), : self._outputs], partial(self._hidden, len(tokens)))

    def _hidden(self, rows: int) -> FloatArray:
        """Of the last pass."""
        hidden = np.empty((rows, self._shape.hidden), np.float32)
        self._engine.gd_hidden(self._handle, rows, hidden.ctypes.data)
        return hidden

    def interrupt(self) -> None:
        """See `LanguageModel.interrupt`: it takes one layer's time."""
        self._engine.gd_interrupt(self._handle)

    def keep(self, rows: Sequence[int]) -> None:
        check_path(rows, self._parents)
        kept = np.asarray(rows, np.int32)
        self._engine.gd_keep(self._handle, kept.ctypes.data, len(kept))
        self._parents = ()

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        self._parents = ()
        self._engine.gd_truncate(self._handle, length)

    def save(self) -> CacheState:
        state = _pages(self._engine.gd_state_bytes(self._handle))
        self._engine.gd_save(self._handle, state.ctypes.data)
        return CacheState(self.length, state.nbytes, state)

    def restore(self, state: CacheState) -> None:
        self._parents = ()
        self._engine.gd_restore(self._handle, state.content.ctypes.data, state.length)

    def close(self) -> None:
        if self._handle:
            self._engine.gd_close(self._handle)
            self._handle = 0

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def _check(
        self, tokens: IntArray, rows: IntArray, parents: IntArray | None, inputs: FloatArray | None, layers: int
    ) -> None:
        n = len(tokens)
        if not 1 <= n <= MAX_ROWS or n > self._context - self.length:
            raise ValueError(f"{n} rows do not fit: at most {MAX_ROWS} a pass, {self._context - self.length} left")
        if tokens.min() < 0 or tokens.max() >= self._shape.vocab:
            raise ValueError(f"a token is outside the vocabulary of {self._shape.vocab}")
        if len(rows) > n or (len(rows) and (rows.min() < 0 or rows.max() >= n)):
            raise ValueError(f"logits of rows {rows.tolist()} of {n} asked for")
        if parents is not None and len(parents) != n:
            raise ValueError(f"{len(parents)} parents for {n} rows")
        if not 0 <= layers <= self._shape.layers:
            raise ValueError(f"a pass through {layers} layers of {self._shape.layers}")
        given = (n, 0) if inputs is None else inputs.shape
        if given != (n, self._inputs):
            raise ValueError(f"inputs of shape {given} where {(n, self._inputs)} are wanted")

    def _inputs_wanted(self) -> int:
        """Beside each token."""
        beside = self.weights.fusion_inputs
        if beside is not None:
            return beside
        return 0 if "embedding.weight" in self.weights.matrices else self._shape.hidden

    def _open(self, beside: CpuModel | None) -> int:
        if beside and not beside._handle:
            raise ValueError("the model whose threads are to be shared is closed")
        self._configuration = Configuration(self.weights, self._context, self.threads)
        config = ctypes.byref(self._configuration.config)
        handle = self._engine.gd_open(config, self.variant.encode(), beside and beside._handle)
        if not handle:
            raise EngineUnavailable(f"No memory for a context of {self._context} tokens. Close something, or use less.")
        return int(handle)


def chosen_variant(wanted: str | None = None) -> str:
    """The one asked for here or by the environment, else the best. Raises EngineUnavailable."""
    here, wanted = variants(), wanted or os.environ.get(VARIANT)
    if wanted and wanted not in here:
        raise EngineUnavailable(f"This machine does not run the variant {wanted}; it runs {', '.join(here)}.")
    return wanted or here[0]


def _address(array: IntArray | FloatArray | None) -> int | None:
    return None if array is None else array.ctypes.data


def _pages(count: int) -> Bytes:
    """So many bytes in pages of their own, which go back to the system when they are freed. Among the allocator's small
    objects they would leave holes of megabytes, since copies of caches differ in size."""
    private = {"flags": mmap.MAP_PRIVATE} if hasattr(mmap, "MAP_PRIVATE") else {}
    return np.frombuffer(mmap.mmap(-1, max(count, 1), **private), np.uint8, count)
