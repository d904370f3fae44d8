"""A model as it lies in the store: one folder, described by its `checkpoint.json`.

    checkpoint.json   format version, spec, origin, source files with sizes and checksums
    tokenizer.json    for the `tokenizers` package
    *.gguf, *.safetensors   the weights as published
    cpu.gdw           the same weights in the CPU engine's own layout, made after the download

Knows nothing of where models come from (`store`), nor of what the weights mean.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ghostdraft.models import registry
from ghostdraft.models.types import FimOrder, FimTemplate, ModelSpec, Shape, WeightsCorrupt

FORMAT = 1
MANIFEST = "checkpoint.json"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A published file as it was checked when it came in. `size` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`origin` says where the files came from, for people: a hub id, package names, a path."""

    folder: Path
    spec: ModelSpec
    files: tuple[SourceFile, ...]
    origin: str

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def weights(self) -> tuple[Path, ...]:
        """One .gguf file, or one or more .safetensors files in the order of their shards."""
        return tuple(self.folder / file.name for file in self.files if file.name.endswith((".gguf", ".safetensors")))

    @property
    def tokenizer_path(self) -> Path:
        return self.folder / "tokenizer.json"

    @property
    def cpu_weights(self) -> Path:
        return self.folder / "cpu.gdw"

    @property
    def mend(self) -> str:
        """What to do where its files are damaged."""
        return mend(self.name, self.origin)

    @property
    def size(self) -> int:
        """Bytes on disk, converted weights included."""
        return sum(path.stat().st_size for path in self.folder.iterdir() if path.is_file())

    def save(self) -> None:
        manifest = {
            "format": FORMAT,
            "origin": self.origin,
            "files": [asdict(file) for file in self.files],
            "spec": asdict(self.spec),
        }
        unfinished = self.folder / (MANIFEST + ".part")
        unfinished.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(unfinished, self.folder / MANIFEST)


@contextmanager
def mend_told(mend: str) -> Iterator[None]:
    """Those who read weights know what is wrong with them; here the way out is added."""
    try:
        yield
    except WeightsCorrupt as error:
        raise WeightsCorrupt(f"{error} {mend}") from error


def mend(name: str, origin: object) -> str:
    """The commands that replace a damaged model; `origin` as its manifest has it, whatever that is."""
    remove = f"ghostdraft models remove {shlex.quote(name)}"
    if isinstance(origin, str) and Path(origin).is_absolute() and Path(origin).exists():
        bring = f"ghostdraft models import {shlex.quote(origin)} --name {shlex.quote(name)}"
        return f"Remove the model and import it again: {remove} && {bring}"
    if name in registry.MODELS or (isinstance(origin, str) and not Path(origin).is_absolute()):
        return f"Remove the model and fetch it again: {remove} && ghostdraft models pull {shlex.quote(name)}"
    return f"Remove the model, then pull it or import its file again: {remove}"


def open_checkpoint(folder: Path) -> Checkpoint:
    """Reads the manifest and compares the files' sizes with it (their checksums were compared when they came in).

    Raises WeightsCorrupt where the manifest cannot be read, or a file is missing or has another size.
    """
    manifest = read_manifest(folder)
    try:
        files = tuple(SourceFile(**file) for file in manifest["files"])
        checkpoint = Checkpoint(folder, _spec(manifest["spec"]), files, manifest["origin"])
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(folder) from error
    with mend_told(checkpoint.mend):
        for file in files:
            _check_size(folder, file)
    return checkpoint


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest as it stands, of whichever format version. Raises WeightsCorrupt."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _broken(folder) from error
    if not isinstance(manifest, dict):
        raise _broken(folder)
    return manifest


def _check_size(folder: Path, file: SourceFile) -> None:
    path = folder / file.name
    if not path.is_file():
        raise WeightsCorrupt(f"{path} is missing.")
    if path.stat().st_size != file.size:
        raise WeightsCorrupt(f"{path} has {path.stat().st_size:,} bytes instead of {file.size:,}.")


def _broken(folder: Path) -> WeightsCorrupt:
    return WeightsCorrupt(f"{folder / MANIFEST} cannot be read. {mend(folder.name, None)}")


def _spec(fields: dict[str, Any]) -> ModelSpec:
    tuples = ("stop_tokens", "special_tokens", "drafts")
    fim = tuple(FimTemplate(FimOrder(one["order"]), tuple(one["parts"])) for one in fields["fim"])
    plain: dict[str, Any] = {key: tuple(value) if key in tuples else value for key, value in fields.items()}
    return ModelSpec(**plain | {"shape": Shape.of(fields["shape"]), "fim": fim})
