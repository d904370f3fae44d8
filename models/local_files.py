"""Brings a model that already lies on this machine into the store: a GGUF file, or a folder with safetensors.

Knows nothing of hubs and networks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from ghostdraft.models.checkpoint import SourceFile
from ghostdraft.models.gguf_header import SPLIT, is_part
from ghostdraft.models.progress import Advance
from ghostdraft.models.types import EngineUnavailable, ModelNotFound, WeightsCorrupt

COMPANIONS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")

_CHUNK = 4 << 20


def find_files(path: Path) -> tuple[Path, ...]:
    """The weights of a model, then its companions. Raises ModelNotFound, WeightsCorrupt (pickled weights),
    EngineUnavailable (a GGUF file in parts)."""
    if path.is_file() and path.suffix == ".gguf":
        return tuple(path.with_name(name) for name in choose([path.name], str(path)))
    if path.is_file():
        raise ModelNotFound(f"{path} is not a .gguf file. Give a GGUF file, or a folder with safetensors files.")
    if not path.is_dir():
        what = "is not a plain file, nor a folder" if os.path.lexists(path) else "does not exist"
        raise ModelNotFound(f"{path} {what}. Give a GGUF file, or a folder with safetensors files.")
    chosen = choose([child.name for child in sorted(path.iterdir()) if child.is_file()], str(path))
    return tuple(path / name for name in chosen)


def choose(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Of the files of a folder or a repository: the weights, then their companions. Raises as `find_files`."""
    weights = sorted(name for name in names if name.endswith(".safetensors") and name.startswith("model"))
    weights = weights or sorted(name for name in names if name.endswith(".safetensors") and "/" not in name)
    if weights:
        return (*weights, *(name for name in COMPANIONS if name in names))
    quantised = sorted((name for name in names if name.endswith(".gguf")), key=_preference)
    if whole := [name for name in quantised if not is_part(name)]:
        return (whole[0],)
    if quantised:
        raise EngineUnavailable(SPLIT)
    if any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in names):
        raise WeightsCorrupt(
            f"{where} has pickled weights only, which can run code when they are read, so they are not. "
            "Look for a version as safetensors or GGUF."
        )
    raise ModelNotFound(f"{where} has no .safetensors and no .gguf files. Give a folder or a file that has weights.")


def _preference(name: str) -> tuple[int, str]:
    """Q4_K_M first: the smallest that keeps what a model knows; then the larger ones."""
    order = ("q4_k_m", "q4_k_s", "q4_1", "q4_0", "q5_k_m", "q5_0", "q6_k", "q8_0")
    lowered = name.lower()
    return next((rank for rank, kind in enumerate(order) if kind in lowered), len(order)), name


def copy(source: Path, target: Path, advance: Advance) -> SourceFile:
    """Copies a file and takes its checksum on the way. Raises OSError."""
    digest, done = hashlib.sha256(), 0
    with source.open("rb") as reader, target.open("wb") as writer:
        while chunk := reader.read(_CHUNK):
            writer.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            advance(done)
    return SourceFile(target.name, done, digest.hexdigest())
