"""Makes a checkpoint of a folder with published files: tokenizer, spec, manifest, and the CPU engine's weights.

Knows nothing of where the files came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from ghostdraft.models import specs, tokenizer_files
from ghostdraft.models.checkpoint import Checkpoint, SourceFile
from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.gguf_header import SPLIT, read_header
from ghostdraft.models.progress import Stage, Watch
from ghostdraft.models.registry import KnownModel
from ghostdraft.models.safetensors_header import read_shapes
from ghostdraft.models.specs import Facts
from ghostdraft.models.types import EngineUnavailable


@dataclass(frozen=True, slots=True)
class Delivery:
    """Published files as they lie in a folder. `files` are the weights; `licence` as the publisher gave it."""

    name: str
    origin: str
    files: tuple[SourceFile, ...]
    licence: str | None = None
    known: KnownModel | None = None


def install(folder: Path, delivery: Delivery, watch: Watch) -> Checkpoint:
    """Raises WeightsCorrupt where the files are not what they should be, EngineUnavailable where they are no kind that
    is known."""
    checkpoint = _describe(folder, delivery)
    checkpoint.save()
    try:
        convert(checkpoint, lambda done, total: watch.advanced(Stage.CONVERTING, done, total))
    except EngineUnavailable as error:
        watch.noted(str(error))
    return checkpoint


def _describe(folder: Path, delivery: Delivery) -> Checkpoint:
    weights = [folder / file.name for file in delivery.files]
    tokenizer, facts = (
        _read_gguf(weights[0]) if weights[0].suffix == ".gguf" else _read_safetensors(folder, weights, delivery)
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    spec = specs.describe(delivery.name, facts, tokenizer, delivery.licence, delivery.known)
    return Checkpoint(folder, spec, delivery.files, delivery.origin)


def _read_gguf(path: Path) -> tuple[tokenizers.Tokenizer, Facts]:
    header = read_header(path)
    if header.is_part:
        raise EngineUnavailable(SPLIT)
    return tokenizer_files.from_gguf(header), specs.facts_from_gguf(header, path)


def _read_safetensors(folder: Path, weights: Sequence[Path], delivery: Delivery) -> tuple[tokenizers.Tokenizer, Facts]:
    tensors = {name: shape for path in weights for name, shape in read_shapes(path).items()}
    tokenizer = tokenizer_files.from_published(folder / "tokenizer.json")
    return tokenizer, specs.facts_from_config(folder, tensors, (delivery.name, delivery.origin))
