"""A checkpoint's tensors as the converter wants them, from GGUF or safetensors, a slice of rows at a time.

Knows names and file formats; knows nothing of the engine's layout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ghostdraft.models.cpu.blocks import GGUF_FORMATS, Q8_0, Bytes, Floats, Format, Quants, quantise
from ghostdraft.models.gguf_header import TensorEntry, read_header
from ghostdraft.models.types import EngineUnavailable, Shape, WeightsCorrupt

Numbers = npt.NDArray[Any]

SLICE = 4096  # rows

# ours: (GGUF's, Hugging Face's)
TOP = {
    "embedding": ("token_embd", "model.embed_tokens"),
    "final_norm": ("output_norm", "model.norm"),
    "head": ("output", "lm_head"),
    "fusion": ("fusion", "fusion"),  # these two: of drafts
    "inner": ("inner", "inner"),
}
OF_LAYER = {
    "attention_norm": ("attn_norm", "input_layernorm"),
    "q": ("attn_q", "self_attn.q_proj"),
    "k": ("attn_k", "self_attn.k_proj"),
    "v": ("attn_v", "self_attn.v_proj"),
    "o": ("attn_output", "self_attn.o_proj"),
    "q_norm": ("attn_q_norm", "self_attn.q_norm"),
    "k_norm": ("attn_k_norm", "self_attn.k_norm"),
    "mlp_norm": ("ffn_norm", "post_attention_layernorm"),
    "gate": ("ffn_gate", "mlp.gate_proj"),
    "up": ("ffn_up", "mlp.up_proj"),
    "down": ("ffn_down", "mlp.down_proj"),
}


@dataclass(frozen=True, slots=True)
class Name:
    """One tensor; `layer` is None for those outside the layers."""

    part: str
    layer: int | None = None
    kind: str = "weight"

    def of_gguf(self) -> str:
        return f"{'' if self.layer is None else f'blk.{self.layer}.'}{self._both[0]}.{self.kind}"

    def of_hub(self) -> str:
        return f"{'' if self.layer is None else f'model.layers.{self.layer}.'}{self._both[1]}.{self.kind}"

    @property
    def is_vector(self) -> bool:
        return self.kind == "bias" or self.part.endswith("norm")

    @property
    def _both(self) -> tuple[str, str]:
        return (TOP if self.layer is None else OF_LAYER)[self.part]


class Source(Protocol):
    def vector(self, name: Name) -> Floats: ...

    def size(self, name: Name) -> tuple[int, int]:
        """Rows and columns."""

    def form(self, name: Name) -> Format: ...

    def slices(self, name: Name) -> Iterator[Quants]:
        """The rows in order, at most SLICE at a time."""


def open_source(weights: tuple[Path, ...], shape: Shape) -> Source:
    """Raises WeightsCorrupt, EngineUnavailable."""
    return GgufSource(weights[0], shape) if weights[0].suffix == ".gguf" else SafetensorsSource(weights)


class GgufSource:
    def __init__(self, path: Path, shape: Shape) -> None:
        header = read_header(path)
        self._path, self._shape, self._tensors = path, shape, header.tensors
        self._data: Bytes = np.memmap(path, np.uint8, "r", offset=header.data_start)

    def vector(self, name: Name) -> Floats:
        entry = self._entry(name)
        if _kind(entry) != "F32":
            raise WeightsCorrupt(f"{entry.name} is {_kind(entry)}, where GGUF files have F32. Export the model anew.")
        values = self._data[entry.offset : entry.offset + 4 * entry.dims[0]].view(np.float32)
        return self._apart(values.reshape(-1, 1), name)[:, 0] if name.part in "qk" else values

    def size(self, name: Name) -> tuple[int, int]:
        columns, rows = self._entry(name).dims
        return rows, columns

    def form(self, name: Name) -> Format:
        known = GGUF_FORMATS.get(_kind(self._entry(name)))
        return known.form if known else Q8_0

    def slices(self, name: Name) -> Iterator[Quants]:
        entry = self._entry(name)
        rows = self._rows(entry)
        if name.part in "qk":
            yield self._quants(self._apart(rows, name), entry)
            return
        for at in range(0, len(rows), SLICE):
            yield self._quants(rows[at : at + SLICE], entry)

    def _entry(self, name: Name) -> TensorEntry:
        try:
            return self._tensors[name.of_gguf()]
        except KeyError as error:
            raise WeightsCorrupt(f"{self._path} has no tensor {name.of_gguf()}.") from error

    def _rows(self, entry: TensorEntry) -> Bytes:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        columns, rows = entry.dims
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(entry.kind)]
        length = columns // block * size
        return self._data[entry.offset : entry.offset + rows * length].reshape(rows, length)

    def _quants(self, rows: Bytes, entry: TensorEntry) -> Quants:
        known = GGUF_FORMATS.get(_kind(entry))
        if known:
            return known.read(rows.reshape(len(rows), -1, known.size))
        from gguf import GGMLQuantizationType, dequantize

        return quantise(dequantize(rows, GGMLQuantizationType(entry.kind)).astype(np.float32))

    def _apart(self, rows: Numbers, name: Name) -> Numbers:
        """GGUF interleaves the two halves of a Llama head that RoPE pairs; here they stand one after the other."""
        if self._shape.architecture != "llama":
            return rows
        heads = self._shape.heads if name.part == "q" else self._shape.kv_heads
        return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def _kind(entry: TensorEntry) -> str:
    from gguf.constants import GGMLQuantizationType

    return GGMLQuantizationType(entry.kind).name


class SafetensorsSource:
    """Float weights, quantised on the way as Q8_0."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._tensors = {name: tensor for path in paths for name, tensor in _map_tensors(path).items()}

    def vector(self, name: Name) -> Floats:
        return _float32(self._tensor(name))

    def size(self, name: Name) -> tuple[int, int]:
        rows, columns = self._tensor(name).shape
        return rows, columns

    def form(self, name: Name) -> Format:  # noqa: ARG002
        return Q8_0

    def slices(self, name: Name) -> Iterator[Quants]:
        weights = self._tensor(name)
        for at in range(0, len(weights), SLICE):
            yield quantise(_float32(weights[at : at + SLICE]))

    def _tensor(self, name: Name) -> Numbers:
        try:
            return self._tensors[name.of_hub()]
        except KeyError as error:
            raise WeightsCorrupt(f"The weights have no tensor {name.of_hub()}.") from error


_DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


def _map_tensors(path: Path) -> dict[str, Numbers]:
    """BF16 comes as uint16, the upper halves of float32."""
    data: Bytes = np.memmap(path, np.uint8, "r")
    length = int(data[:8].view(np.uint64)[0])
    header = json.loads(bytes(data[8 : 8 + length]))
    header.pop("__metadata__", None)
    return {name: _view(data[8 + length :], entry, name) for name, entry in header.items()}


def _view(data: Bytes, entry: dict[str, Any], name: str) -> Numbers:
    if entry["dtype"] not in _DTYPES:
        raise EngineUnavailable(f"The CPU engine reads F32, F16 and BF16 weights; {name} is {entry['dtype']}.")
    first, last = entry["data_offsets"]
    return data[first:last].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _float32(numbers: Numbers) -> Floats:
    if numbers.dtype == np.uint16:
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers.astype(np.float32)
