"""The packages that the holes were cut from: fetched once into a cache, checked by their sha256, read as data.

Knows nothing of models. Nothing of a package is ever installed, imported or run.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

from ghostdraft.benchmarks import debian, npm
from ghostdraft.benchmarks.holes import Cursor, Hole, Package, cut
from ghostdraft.models import package_index, pip_settings, transfer
from ghostdraft.models.disk import disk_errors
from ghostdraft.models.store import default_home
from ghostdraft.models.types import DownloadFailed, WeightsCorrupt

Progress = Callable[[int, int, str], None]  # packages that are here, of how many, and the one that is on its way


def _ignore(_done: int, _total: int, _name: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Corpus:
    """A folder of artefacts, each under its checksum and name."""

    folder: Path

    @staticmethod
    def open() -> Corpus:
        """The cache of the bench: <home>/bench."""
        return Corpus(default_home() / "bench")

    def fetch(self, packages: Iterable[Package], progress: Progress = _ignore) -> None:
        """Brings what is missing. Raises DownloadFailed, WeightsCorrupt, OutOfSpace, ModelError."""
        wanted = set(packages)
        missing = self.missing(wanted)
        if not missing:
            return
        http = transfer.Http(pip_settings.read())
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for number, package in enumerate(missing):
                progress(len(wanted) - len(missing) + number, len(wanted), package.name)
                self._bring(http, package)
        progress(len(wanted), len(wanted), "")

    def missing(self, packages: Iterable[Package]) -> list[Package]:
        """Those that are not here yet, by name."""
        absent = {package for package in packages if not self.path(package).exists()}
        return sorted(absent, key=lambda package: package.name)

    def cursor(self, hole: Hole) -> Cursor:
        """The hole's file with the hole cut out. Its package must have been fetched."""
        name = f"{hole.package.name} {hole.path}:{hole.block.line}"
        return cut(name, hole.language, self._text(hole.package, hole.path), hole.block)

    def members(self, package: Package, wanted: Callable[[str], bool]) -> list[tuple[str, bytes]]:
        """Path and contents of the files with a wanted path, in the order of the paths."""
        with self.path(package).open("rb") as file:
            return sorted(_reader(package)(file, wanted))

    def path(self, package: Package) -> Path:
        return self.folder / f"{package.sha256[:12]}-{package.artefact}"

    def _bring(self, http: transfer.Http, package: Package) -> None:
        try:
            _download(http, package, self.path(package))
        except (DownloadFailed, WeightsCorrupt) as error:
            raise type(error)(f"{package.artefact}, which the bench needs, could not be fetched. {error}") from error

    def _text(self, package: Package, path: str) -> str:
        """Raises WeightsCorrupt where the artefact does not carry the file."""
        found = self.members(package, lambda name: name == path)
        if not found:
            raise WeightsCorrupt(f"{package.artefact} has no file {path}. Delete {self.path(package)} and try again.")
        return found[0][1].decode()


def read_packages(name: str = "packages.txt") -> list[tuple[str, Package]]:
    """The lines of a list: the language a package was taken for, and the package."""
    text = files("ghostdraft.benchmarks").joinpath(name).read_text(encoding="utf-8")
    rows = (line.split(maxsplit=6) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return [(language, Package(*fields)) for language, *fields in rows]


def _download(http: transfer.Http, package: Package, target: Path) -> None:
    if package.registry == "debian":
        debian.download(package, target)
    else:
        transfer.download(http, _url(http, package), target, lambda _done: None, sha256=package.sha256)


def _url(http: transfer.Http, package: Package) -> str:
    if package.registry == "npm":
        return npm.artefact_url(package.name, package.artefact)
    return package_index.find_file(http, package.name, package.version, package.artefact).url


def _reader(package: Package) -> Callable[[BinaryIO, Callable[[str], bool]], Iterator[tuple[str, bytes]]]:
    if package.artefact.endswith(".deb"):
        return lambda file, wanted: _tar_members(debian.data_archive(file), wanted)
    return _zip_members if package.artefact.endswith((".whl", ".zip")) else _tar_members


def _zip_members(file: BinaryIO, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        yield from ((name, archive.read(name)) for name in archive.namelist() if wanted(name))


def _tar_members(file: BinaryIO, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=file) as archive:
        for entry in archive:
            reader = archive.extractfile(entry) if entry.isfile() and wanted(entry.name) else None
            if reader is not None:
                yield entry.name, reader.read()
