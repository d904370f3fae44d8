"""Writes a checkpoint's weights in the CPU engine's own layout, once, so that they only need mapping afterwards.

    8 bytes   magic
    4 bytes   format version, little endian
    4 bytes   length of the header
    header    JSON: the shape, and each tensor's place, size and format
    data      tensors, each on a 64-byte boundary
    4 bytes   CRC-32 of all before it

Knows nothing of the pass that the engine makes over them.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ghostdraft.models.architectures import ARCHITECTURES
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu.blocks import GROUP, Format, pack
from ghostdraft.models.cpu.sources import OF_LAYER, Name, Source, open_source
from ghostdraft.models.disk import disk_errors
from ghostdraft.models.types import EngineUnavailable, Shape

MAGIC = b"gdraft\r\n"
VERSION = 6
_CHECKSUM = struct.Struct("<I")
ALIGNMENT = 64
RUNS = ("llama", "qwen2", "qwen3")
_PREAMBLE = struct.Struct("<8sII")
_HEAD_NORMS = ("q_norm", "k_norm")

Progress = Callable[[int, int], None]  # bytes done, bytes in all


@dataclass(frozen=True, slots=True)
class Tensor:
    """`form` is None for a vector of float32. `offset` counts from the data, `size` in bytes."""

    key: str
    rows: int
    columns: int
    form: Format | None
    offset: int
    size: int


def key(name: Name) -> str:
    """A tensor's key in the file: "head.weight", "3.q.bias"."""
    return f"{'' if name.layer is None else f'{name.layer}.'}{name.part}.{name.kind}"


def covers(shape: Shape) -> str | None:
    """Why the CPU engine cannot run this shape; None where it can."""
    if shape.architecture not in RUNS:
        return f"the CPU engine runs Llama, Qwen2 and Qwen3 shapes, not {shape.architecture}"
    if shape.window is not None:
        return "the CPU engine has no sliding window"
    widths = {"hidden size": shape.hidden, "MLP width": shape.mlp, "head size": shape.head_dim}
    uneven = [f"{what} {width}" for what, width in widths.items() if width % GROUP]
    if shape.heads % shape.kv_heads:
        return f"{shape.heads} heads do not share {shape.kv_heads} key heads evenly"
    if uneven or shape.head_dim > 256:
        return f"the CPU engine needs widths in multiples of {GROUP} and heads of 256 at most ({', '.join(uneven)})"
    return None


def is_current(path: Path) -> bool:
    """Whether `path` holds weights in the present format, as far as its header and its size tell."""
    try:
        with path.open("rb") as file:
            magic, version, length = _PREAMBLE.unpack(file.read(_PREAMBLE.size))
            header = json.loads(file.read(length)) if (magic, version) == (MAGIC, VERSION) else {}
        return bool(path.stat().st_size == data_start(length) + header["size"] + _CHECKSUM.size)
    except (OSError, struct.error, ValueError, KeyError):
        return False


def is_intact(path: Path) -> bool:
    """Whether a current file is still as it was written; reads all of it."""
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
        view[: -_CHECKSUM.size] as checked,
    ):
        return _CHECKSUM.pack(zlib.crc32(checked)) == bytes(view[-_CHECKSUM.size :])


def data_start(header_length: int) -> int:
    return -(-(_PREAMBLE.size + header_length) // ALIGNMENT) * ALIGNMENT


def convert(checkpoint: Checkpoint, progress: Progress = lambda _done, _total: None) -> None:
    """Writes `checkpoint.cpu_weights`, whole or not at all.

    Raises EngineUnavailable where the engine does not cover the shape, WeightsCorrupt, OutOfSpace, ModelError.
    """
    shape = checkpoint.spec.shape
    reason = covers(shape)
    if reason:
        raise EngineUnavailable(f"{checkpoint.name}: {reason}.")
    source = open_source(checkpoint.weights, shape)
    names = list(_names(shape))
    tensors = _plan(source, names)
    unfinished = checkpoint.cpu_weights.with_suffix(".part")
    try:
        with disk_errors(checkpoint.folder):
            with unfinished.open("w+b") as file:
                _write(file, shape, source, list(zip(names, tensors, strict=True)), progress)
            os.replace(unfinished, checkpoint.cpu_weights)
    finally:
        unfinished.unlink(missing_ok=True)


def _names(shape: Shape) -> Iterator[Name]:
    yield from (Name("embedding"), *layer_names(shape), Name("final_norm"))
    if not shape.tied:
        yield Name("head")


def layer_names(shape: Shape) -> Iterator[Name]:
    """The tensors of all layers."""
    biased = dict.fromkeys(OF_LAYER, False) | dict.fromkeys("qkv", shape.qkv_bias)
    biased |= {"o": shape.out_bias} | dict.fromkeys(("gate", "up", "down"), shape.mlp_bias)
    for layer in range(shape.layers):
        for part in OF_LAYER:
            if part not in _HEAD_NORMS or ARCHITECTURES[shape.architecture].head_norms:
                yield Name(part, layer)
            if biased[part]:
                yield Name(part, layer, "bias")


def _plan(source: Source, names: list[Name]) -> list[Tensor]:
    tensors: list[Tensor] = []
    offset = 0
    for name in names:
        tensors.append(_place(source, name, offset))
        offset += -(-tensors[-1].size // ALIGNMENT) * ALIGNMENT
    return tensors


def _place(source: Source, name: Name, offset: int) -> Tensor:
    if name.is_vector:
        length = len(source.vector(name))
        return Tensor(key(name), 1, length, None, offset, 4 * length)
    rows, columns = source.size(name)
    form = source.form(name)
    return Tensor(key(name), rows, columns, form, offset, form.size(rows, columns))


def _write(file: BinaryIO, shape: Shape, source: Source, plan: list[tuple[Name, Tensor]], progress: Progress) -> None:
    total = plan[-1][1].offset + plan[-1][1].size
    header = json.dumps({"shape": asdict(shape), "size": total, "tensors": [asdict(t) for _, t in plan]}).encode()
    file.write(_PREAMBLE.pack(MAGIC, VERSION, len(header)) + header)
    for name, tensor in plan:
        file.seek(data_start(len(header)) + tensor.offset)
        for part in _parts(source, name, tensor.form):
            file.write(part)
            progress(file.tell(), data_start(len(header)) + total)
    file.write(_CHECKSUM.pack(_checksum(file)))


def _checksum(file: BinaryIO) -> int:
    """Of the whole file, which is then at its end."""
    file.seek(0)
    checksum = 0
    while part := file.read(1 << 20):
        checksum = zlib.crc32(part, checksum)
    return checksum


def _parts(source: Source, name: Name, form: Format | None) -> Iterator[bytes]:
    if form is None:
        yield source.vector(name).astype(np.float32).tobytes()
        return
    for quants in source.slices(name):
        yield pack(quants, form)


def read_plan(path: Path) -> tuple[Shape, dict[str, Tensor], int]:
    """The shape, the tensors by key and where the data begins; the file must be current."""
    with path.open("rb") as file:
        length = _PREAMBLE.unpack(file.read(_PREAMBLE.size))[2]
        header: dict[str, Any] = json.loads(file.read(length))
    tensors = [Tensor(**{**one, "form": Format(**one["form"]) if one["form"] else None}) for one in header["tensors"]]
    return Shape.of(header["shape"]), {tensor.key: tensor for tensor in tensors}, data_start(length)
