"""Weights as the C engine takes them: those of a mapped file, or put together from several, as a draft's are that
borrows its target's embeddings and head. Knows nothing of passes.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from ctypes import POINTER, c_float, c_int32, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ghostdraft.models.cpu.blocks import Bytes, Format, take_rows
from ghostdraft.models.cpu.convert import Tensor, is_current, read_plan
from ghostdraft.models.rope import frequencies
from ghostdraft.models.types import FloatArray, IntArray, Shape, WeightsCorrupt

MATRICES = ("q", "k", "v", "o", "gate", "up", "down")
NORMS = ("attention_norm", "mlp_norm", "q_norm", "k_norm")


class _Matrix(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("bias", c_void_p),
        *((name, c_int32) for name in ("n", "k", "bits", "zero", "scale_columns", "multiples")),
    )


class _Layer(ctypes.Structure):
    _fields_ = (*((name, _Matrix) for name in MATRICES), *((name, c_void_p) for name in NORMS))


class Config(ctypes.Structure):
    """What `gd_open` wants; see engine.h."""

    _fields_ = (
        *(
            (name, c_int32)
            for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "mlp", "vocab", "context", "threads")
        ),
        ("rms_eps", c_float),
        ("rope", c_void_p),
        ("final_norm", c_void_p),
        ("layer", POINTER(_Layer)),
        ("embedding", _Matrix),
        ("head", _Matrix),
        ("fusion", _Matrix),
    )


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix in the layout that engine.h draws."""

    form: Format
    rows: int
    columns: int
    data: Bytes

    def take(self, rows: IntArray) -> Packed:
        """Some of its rows, in this order; a copy."""
        return Packed(self.form, len(rows), self.columns, take_rows(self.data, self.form, self.columns, rows))


@dataclass(frozen=True, slots=True)
class Weights:
    """By their keys in the file: "embedding.weight", "3.q.bias". Without a head the embedding is the head."""

    shape: Shape
    matrices: Mapping[str, Packed]
    vectors: Mapping[str, FloatArray]

    @property
    def head(self) -> Packed:
        return self.matrices["embedding.weight" if self.shape.tied else "head.weight"]

    @property
    def fusion_inputs(self) -> int | None:
        """How many numbers beside its embedding make a row; None where it has no fusion."""
        if "fusion.weight" not in self.matrices:
            return None
        return self.matrices["fusion.weight"].columns - self.matrices["embedding.weight"].columns


def read_weights(path: Path) -> Weights:
    """Raises WeightsCorrupt."""
    if not is_current(path):
        raise WeightsCorrupt(f"{path} is cut off or of another version.")
    shape, tensors, start = read_plan(path)
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_WILLNEED"):
        pages.madvise(mmap.MADV_WILLNEED)
    data = np.frombuffer(pages, np.uint8)[start:]
    matrices = {key: _packed(one, data) for key, one in tensors.items() if one.form}
    return Weights(
        shape, matrices, {key: _of(one, data).view(np.float32) for key, one in tensors.items() if not one.form}
    )


def _of(tensor: Tensor, data: Bytes) -> Bytes:
    return data[tensor.offset : tensor.offset + tensor.size]


def _packed(tensor: Tensor, data: Bytes) -> Packed:
    if tensor.form is None:
        raise WeightsCorrupt(f"{tensor.key} is no matrix.")
    return Packed(tensor.form, tensor.rows, tensor.columns, _of(tensor, data))


class Configuration:
    """Structures that point into `weights`, which live as long as this."""

    def __init__(self, weights: Weights, context: int, threads: int) -> None:
        shape = weights.shape
        self._weights = weights
        self._rope = _rope(context, shape)
        self._layers = (_Layer * shape.layers)(*(self._layer(index) for index in range(shape.layers)))
        self.config = Config(
            shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.mlp, shape.vocab,
            context, threads, shape.rms_eps, self._rope.ctypes.data, self._vector("final_norm.weight"),
            self._layers, self._matrix("embedding"), self._matrix("embedding" if shape.tied else "head"),
            self._matrix("fusion"),
        )  # fmt: skip

    def _layer(self, index: int) -> _Layer:
        matrices = (self._matrix(f"{index}.{part}") for part in MATRICES)
        return _Layer(*matrices, *(self._vector(f"{index}.{part}.weight") for part in NORMS))

    def _matrix(self, key: str) -> _Matrix:
        """Absent where the model has none."""
        one = self._weights.matrices.get(f"{key}.weight")
        if one is None:
            return _Matrix()
        form = one.form
        return _Matrix(
            one.data.ctypes.data, self._vector(f"{key}.bias"), one.rows, one.columns,
            form.bits, form.zero, form.scale_columns, form.multiples,
        )  # fmt: skip

    def _vector(self, key: str) -> int | None:
        """None where the model has none."""
        vector = self._weights.vectors.get(key)
        return None if vector is None else vector.ctypes.data


def _rope(context: int, shape: Shape) -> FloatArray:
    """[context, 2, head_dim / 2]: cosine and sine of each position's angles (Su et al. 2021)."""
    angles = np.outer(np.arange(context), frequencies(shape))
    factor = shape.rope_scaling.attention_factor if shape.rope_scaling else 1.0
    return (factor * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32)
