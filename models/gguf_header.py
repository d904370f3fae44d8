"""Reads the header of a GGUF file: its metadata and the list of its tensors, not their values.

The `gguf` package reads headers too, but takes seconds over the 300,000 strings of a large vocabulary.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghostdraft.models.types import WeightsCorrupt

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_DEFAULT_ALIGNMENT = 32
_PART = re.compile(r"-\d{5}-of-(?!00001)\d{5}\.gguf$")

SPLIT = (
    "The GGUF file is split into several. Join them with llama.cpp's llama-gguf-split --merge, "
    "then: ghostdraft models import FILE"
)


def is_part(name: str) -> bool:
    """Whether a file of this name is one of several that are a GGUF file together."""
    return _PART.search(name) is not None


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """`dims` as the file gives them, the fastest first; `kind` is the ggml type; `offset` counts from the data."""

    name: str
    dims: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    metadata: dict[str, Any]
    tensors: dict[str, TensorEntry]
    data_start: int

    @property
    def architecture(self) -> str:
        return str(self.metadata["general.architecture"])

    @property
    def is_part(self) -> bool:
        return self.metadata.get("split.count", 1) not in (0, 1)  # 0 once they were joined

    def value(self, key: str, default: Any = None) -> Any:
        """A hyperparameter of the architecture: `key` without its first part."""
        return self.metadata.get(f"{self.architecture}.{key}", default)


def read_header(path: Path) -> GgufHeader:
    """Raises WeightsCorrupt where `path` is no GGUF file of version 2 or 3, or ends before its last tensor."""
    if path.stat().st_size == 0:
        raise WeightsCorrupt(f"{path} is not a readable GGUF file: it is empty.")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Reader(data).header()
            _check_end(path, header, len(data))
            return header
    except _Unreadable as error:
        raise WeightsCorrupt(f"{path} is not a readable GGUF file: {error}.") from error
    except struct.error as error:
        raise WeightsCorrupt(f"{path} is not a readable GGUF file: its header is cut off.") from error
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise WeightsCorrupt(f"{path} is not a readable GGUF file: its header makes no sense.") from error


def _check_end(path: Path, header: GgufHeader, size: int) -> None:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    for tensor in header.tensors.values():
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.kind)]
        elements = 1
        for dim in tensor.dims:
            elements *= dim
        end = header.data_start + tensor.offset + elements // block * block_bytes
        if end > size:
            raise WeightsCorrupt(f"{path} is cut off: {size:,} bytes, at least {end:,} expected.")


class _Unreadable(Exception):
    """Says why, for people."""


class _Reader:
    """A cursor over the bytes of the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0
        self._unpack = {kind: self._scalar_reader(form) for kind, form in _SCALARS.items()}

    def header(self) -> GgufHeader:
        if self.data[:4] != b"GGUF":
            raise _Unreadable("it does not begin with GGUF")
        self.at = 4
        version, tensor_count, key_count = self.scalar("<I"), self.scalar("<Q"), self.scalar("<Q")
        if version not in (2, 3):
            raise _Unreadable(f"it is of version {version}, and 2 and 3 are known")
        metadata = {self.string(): self.value(self.scalar("<I")) for _ in range(key_count)}
        tensors = [self.tensor() for _ in range(tensor_count)]
        alignment = int(metadata.get("general.alignment", _DEFAULT_ALIGNMENT))
        data_start = -(-self.at // alignment) * alignment
        return GgufHeader(metadata, {tensor.name: tensor for tensor in tensors}, data_start)

    def tensor(self) -> TensorEntry:
        name, dim_count = self.string(), self.scalar("<I")
        dims = tuple(self.scalar("<Q") for _ in range(dim_count))
        return TensorEntry(name, dims, self.scalar("<I"), self.scalar("<Q"))

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array()
        return self._unpack[kind]()

    def array(self) -> list[Any]:
        kind, count = self.scalar("<I"), self.scalar("<Q")
        if kind not in _SCALARS:
            return [self.value(kind) for _ in range(count)]
        form = f"<{count}{_SCALARS[kind][1]}"
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return list(values)

    def string(self) -> str:
        length = self.scalar("<Q")
        text = self.data[self.at : self.at + length]
        if len(text) < length:
            raise _Unreadable("its header is cut off")
        self.at += length
        return text.decode("utf-8")

    def scalar(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def _scalar_reader(self, form: str) -> Callable[[], Any]:
        return lambda: self.scalar(form)
