"""Weights as integer quants with scales: GGUF's block formats read exactly, float weights quantised, both packed into
the layout that engine.h draws.

Formats: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

ROWS = 16  # of a block
GROUP = 32  # columns


@dataclass(frozen=True, slots=True)
class Format:
    """A weight is scale * (quant - zero), or scale * quant + minimum where zero is 0. See `Matrix` in engine.h."""

    bits: int
    zero: int
    scale_columns: int = 32
    multiples: bool = False

    def size(self, rows: int, columns: int) -> int:
        """Bytes of a packed matrix."""
        scales = 2 + (GROUP // self.scale_columns if self.multiples else 0)
        group = ROWS * (GROUP * self.bits // 8 + scales * (1 if self.zero else 2))
        return -(-rows // ROWS) * (columns // GROUP) * group


@dataclass(frozen=True, slots=True)
class Scales:
    """`units` [rows, columns / 32], which float16 holds, times `multiples` [rows, columns / scale_columns], if any."""

    units: Floats
    multiples: npt.NDArray[np.int8] | None = None


@dataclass(frozen=True, slots=True)
class Quants:
    """`values` [rows, columns] with their scales, and minima where the format has them."""

    values: Bytes
    scales: Scales
    minima: Scales | None = None


Q4_0, Q4_1 = Format(4, 8), Format(4, 0)
Q5_0, Q5_1 = Format(5, 16), Format(5, 0)
Q8_0 = Format(8, 128)
Q4_K, Q5_K = Format(4, 0, multiples=True), Format(5, 0, multiples=True)
Q6_K = Format(6, 32, scale_columns=16, multiples=True)


def quantise(weights: Floats) -> Quants:
    """Q8_0's scheme: per 32 columns the largest magnitude becomes 127; the scale is rounded to float16 first."""
    groups = weights.reshape(len(weights), -1, GROUP)
    scales = (np.abs(groups).max(axis=2) / 127).astype(np.float16).astype(np.float32)
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    values = np.clip(np.rint(groups * inverse[:, :, None]), -127, 127) + 128
    return Quants(values.astype(np.uint8).reshape(weights.shape), Scales(scales))


def pack(quants: Quants, form: Format) -> bytes:
    """Rows padded to 16, then block by block and group by group: quants, scales, minima."""
    padding = ((0, -len(quants.values) % ROWS), (0, 0))
    values = np.pad(quants.values, padding, constant_values=form.zero)
    groups = values.reshape(len(values) // ROWS, ROWS, -1, 8, 4).transpose(0, 2, 3, 1, 4)
    scales = [_pack_scales(one, padding) for one in (quants.scales, quants.minima) if one is not None]
    runs = np.ascontiguousarray(_pack_runs(groups, form.bits)).reshape(*groups.shape[:2], -1)
    return np.concatenate([runs, *scales], axis=2).tobytes()


def _pack_runs(groups: Bytes, bits: int) -> Bytes:
    """[blocks, groups, 8 column groups, 16 rows, 4 columns] to the runs of 64 bytes that engine.h draws."""
    if bits == 8:
        return groups
    runs = groups[:, :, :4] | groups[:, :, 4:] << np.uint8(bits)
    if bits == 4:
        return runs
    apart = (groups[:, :, 4:] >> (8 - bits)).reshape(*groups.shape[:2], bits - 4, -1, *groups.shape[3:])  # by run
    shifts = np.arange(apart.shape[3], dtype=np.uint8)[:, None, None] * np.uint8(2 * bits - 8)
    return np.concatenate([runs, np.bitwise_or.reduce(apart << shifts, axis=3)], axis=2)


def _pack_scales(scales: Scales, padding: tuple[tuple[int, int], ...]) -> Bytes:
    """To [blocks, groups, bytes]."""
    halves = np.pad(scales.units, padding).astype(np.float16)
    units = np.ascontiguousarray(halves.reshape(len(halves) // ROWS, ROWS, -1).transpose(0, 2, 1)).view(np.uint8)
    if scales.multiples is None:
        return units
    multiples = np.pad(scales.multiples, padding).view(np.uint8).reshape(len(units), ROWS, units.shape[1], -1)
    return np.concatenate([units, multiples.transpose(0, 2, 3, 1).reshape(*units.shape[:2], -1)], axis=2)


def take_rows(data: Bytes, form: Format, columns: int, rows: npt.NDArray[np.int32]) -> Bytes:
    """Of a packed matrix these rows, packed anew. Whatever belongs to a row stands in a lane of its own."""
    blocks = data.reshape(-1, columns // GROUP, form.size(ROWS, GROUP))
    taken = np.zeros((-(-len(rows) // ROWS), *blocks.shape[1:]), np.uint8)
    at = 0
    for width in _lanes(form):
        lanes = blocks[:, :, at : at + ROWS * width].reshape(*blocks.shape[:2], ROWS, width)
        found = np.zeros((len(taken) * ROWS, blocks.shape[1], width), np.uint8)
        found[: len(rows)] = lanes[rows // ROWS, :, rows % ROWS]
        taken[:, :, at : at + ROWS * width] = (
            found.reshape(-1, ROWS, *found.shape[1:]).swapaxes(1, 2).reshape(*taken.shape[:2], -1)
        )
        at += ROWS * width
    return taken.reshape(-1)


def _lanes(form: Format) -> list[int]:
    """A group's bytes of one row, run by run."""
    scales = [2, *[1] * (GROUP // form.scale_columns if form.multiples else 0)]
    return [*[4] * form.bits, *scales * (1 if form.zero else 2)]


# ---- GGUF's blocks: [rows, blocks, bytes of a block] to quants


def _half(blocks: Bytes, at: int) -> Floats:
    return np.ascontiguousarray(blocks[:, :, at : at + 2]).view(np.float16)[:, :, 0].astype(np.float32)


def _units(blocks: Bytes, at: int) -> Scales:
    return Scales(_half(blocks, at))


def _multiplied(units: Floats, multiples: Bytes) -> Scales:
    """`units` [rows, blocks of 256 columns], `multiples` [rows, blocks, scales of a block] as signed bytes."""
    return Scales(
        np.repeat(units, 256 // GROUP, axis=1), np.ascontiguousarray(multiples).view(np.int8).reshape(len(units), -1)
    )


def _flat(values: npt.NDArray[np.generic]) -> Bytes:
    return values.astype(np.uint8).reshape(len(values), -1)


def _nibbles(packed: Bytes) -> Bytes:
    """The low nibbles of all bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _bit_planes(packed: Bytes) -> Bytes:
    """[..., n] bytes to [..., 8 n] bits, the lowest bit of the first byte first."""
    return np.unpackbits(packed, axis=-1, bitorder="little")


def _q4_0(blocks: Bytes) -> Quants:
    return Quants(_flat(_nibbles(blocks[:, :, 2:])), _units(blocks, 0))


def _q4_1(blocks: Bytes) -> Quants:
    return Quants(_flat(_nibbles(blocks[:, :, 4:])), _units(blocks, 0), _units(blocks, 2))


def _q5_0(blocks: Bytes) -> Quants:
    values = _nibbles(blocks[:, :, 6:]) | _bit_planes(blocks[:, :, 2:6]) << 4
    return Quants(_flat(values), _units(blocks, 0))


def _q5_1(blocks: Bytes) -> Quants:
    values = _nibbles(blocks[:, :, 8:]) | _bit_planes(blocks[:, :, 4:8]) << 4
    return Quants(_flat(values), _units(blocks, 0), _units(blocks, 2))


def _q8_0(blocks: Bytes) -> Quants:
    return Quants(_flat(blocks[:, :, 2:] ^ 128), _units(blocks, 0))


def _k_multiples(packed: Bytes) -> tuple[Bytes, Bytes]:
    """[rows, blocks, 12] bytes to the 6-bit scales and minima of 8 sub-blocks each."""
    low, middle, high = packed[:, :, :4], packed[:, :, 4:8], packed[:, :, 8:]
    scales = np.concatenate([low & 63, high & 15 | low >> 6 << 4], axis=2)
    minima = np.concatenate([middle & 63, high >> 4 | middle >> 6 << 4], axis=2)
    return scales, minima


def _k_quants(blocks: Bytes, values: Bytes) -> Quants:
    """`values` [rows, blocks, 4, 2, 32]: pairs of sub-blocks, in low and high nibbles."""
    scales, minima = _k_multiples(blocks[:, :, 4:16])
    return Quants(_flat(values), _multiplied(_half(blocks, 0), scales), _multiplied(-_half(blocks, 2), minima))


def _pairs(packed: Bytes) -> Bytes:
    runs = packed.reshape(*packed.shape[:2], 4, 1, GROUP)
    return np.concatenate([runs & 15, runs >> 4], axis=3)


def _q4_k(blocks: Bytes) -> Quants:
    return _k_quants(blocks, _pairs(blocks[:, :, 16:]))


def _q5_k(blocks: Bytes) -> Quants:
    shifts = np.arange(8, dtype=np.uint8).reshape(4, 2, 1)
    fifth = blocks[:, :, None, None, 16:48] >> shifts & np.uint8(1)
    return _k_quants(blocks, _pairs(blocks[:, :, 48:]) | fifth << np.uint8(4))


def _q6_k(blocks: Bytes) -> Quants:
    low = blocks[:, :, :128].reshape(*blocks.shape[:2], 2, 1, 64)
    high = blocks[:, :, 128:192].reshape(*blocks.shape[:2], 2, 1, GROUP)
    nibbles = np.concatenate([low & 15, low >> 4], axis=3).reshape(*blocks.shape[:2], 2, 4, GROUP)
    pairs = high >> np.array([0, 2, 4, 6], np.uint8).reshape(4, 1) & 3
    return Quants(_flat(nibbles | pairs << 4), _multiplied(_half(blocks, 208), blocks[:, :, 192:208]))


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """How GGUF stores it: `columns` a block in `size` bytes."""

    form: Format
    columns: int
    size: int
    read: Callable[[Bytes], Quants]


GGUF_FORMATS = {
    "Q4_0": BlockFormat(Q4_0, 32, 18, _q4_0),
    "Q4_1": BlockFormat(Q4_1, 32, 20, _q4_1),
    "Q5_0": BlockFormat(Q5_0, 32, 22, _q5_0),
    "Q5_1": BlockFormat(Q5_1, 32, 24, _q5_1),
    "Q8_0": BlockFormat(Q8_0, 32, 34, _q8_0),
    "Q4_K": BlockFormat(Q4_K, 256, 144, _q4_k),
    "Q5_K": BlockFormat(Q5_K, 256, 176, _q5_k),
    "Q6_K": BlockFormat(Q6_K, 256, 210, _q6_k),
}
