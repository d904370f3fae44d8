"""A trained draft in a file: GGUF, with tensors named as in any other, and what it is for beside them.

    general.architecture       "ghostdraft"
    ghostdraft.kind            one of KINDS
    ghostdraft.target          the model whose tokens it guesses, and the width of its states
    ghostdraft.vocabulary      the tokens that it guesses at all, ascending
    ghostdraft.*               hyperparameters, and the card: data, licences, steps, loss, acceptance

Knows nothing of who runs it, nor how it was trained.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from ghostdraft.models.gguf_header import read_header
from ghostdraft.models.types import FloatArray, IntArray, Shape, WeightsCorrupt

ARCHITECTURE = "ghostdraft"
FORMAT = 1
ENDING = ".gguf"
MEND = "Train it anew: ghostdraft train-draft."


class DraftKind(StrEnum):
    """What drafts: a language model of its own; a layer over the target's states; heads on one such state."""

    DRAFT_MODEL = "draft-model"
    EAGLE = "eagle"
    MEDUSA = "medusa"


@dataclass(frozen=True, slots=True)
class DraftHeader:
    """`target_hidden`: the width of the target's states. `shape.vocab` is the target's; `heads`: of Medusa.
    `vocabulary` [draft vocab]."""

    kind: DraftKind
    target: str
    target_hidden: int
    shape: Shape
    heads: int
    vocabulary: IntArray
    card: Mapping[str, Any]


def write_draft(path: Path, header: DraftHeader, tensors: Mapping[str, FloatArray]) -> None:
    """`tensors` by their names in the file; matrices become Q5_0, as good here as Q8_0. Whole or not at all."""
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    unfinished = path.with_suffix(".part")
    writer = GGUFWriter(unfinished, ARCHITECTURE)
    for key, value in _fields(header).items():
        writer.add_uint32(key, value) if isinstance(value, int) else writer.add_string(key, value)
    writer.add_array(_key("vocabulary"), header.vocabulary.tolist())
    for name, tensor in tensors.items():
        if tensor.ndim == 1:
            writer.add_tensor(name, tensor.astype(np.float32))
        else:
            packed = quants.quantize(tensor.astype(np.float32), GGMLQuantizationType.Q5_0)
            writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q5_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(unfinished, path)


def read_draft(path: Path) -> DraftHeader:
    """Raises WeightsCorrupt."""
    try:
        metadata = read_header(path).metadata
    except WeightsCorrupt as error:
        raise WeightsCorrupt(f"{error} {MEND}") from error
    try:
        version, header = metadata[_key("format")], _header(metadata)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise WeightsCorrupt(f"{path} is no draft of Ghostdraft. {MEND}") from error
    if version != FORMAT:
        raise WeightsCorrupt(f"{path} is of another version. {MEND}")
    return header


def _header(metadata: Mapping[str, Any]) -> DraftHeader:
    return DraftHeader(
        DraftKind(metadata[_key("kind")]),
        metadata[_key("target")],
        int(metadata[_key("target_hidden")]),
        Shape.of(json.loads(metadata[_key("shape")])),
        int(metadata[_key("heads")]),
        np.array(metadata[_key("vocabulary")], np.int32),
        json.loads(metadata[_key("card")]),
    )


def read_tensors(path: Path) -> dict[str, FloatArray]:
    """By their names in the file, matrices [out, in]."""
    from gguf import GGUFReader, dequantize

    tensors = GGUFReader(path).tensors
    return {one.name: np.array(dequantize(one.data, one.tensor_type), np.float32) for one in tensors}


def _fields(header: DraftHeader) -> dict[str, int | str]:
    return {
        _key("format"): FORMAT,
        _key("kind"): header.kind.value,
        _key("target"): header.target,
        _key("target_hidden"): header.target_hidden,
        _key("shape"): json.dumps(asdict(header.shape)),
        _key("heads"): header.heads,
        _key("card"): json.dumps(dict(header.card)),
    }


def _key(name: str) -> str:
    return f"{ARCHITECTURE}.{name}"
