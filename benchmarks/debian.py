"""Debian's packages by name and version, through the machine's apt: nothing is installed, no script is run.

A file that ends in .deb is a package; any other is the upstream archive of a source package. The machine's own lists
of packages often are old and lack sources, so apt is given lists of its own, from the same places. Knows nothing of
what is in a package.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from ghostdraft.benchmarks.holes import Package
from ghostdraft.models.transfer import file_sha256
from ghostdraft.models.types import DownloadFailed, WeightsCorrupt

_MAGIC = b"!<arch>\n"
_PLACE = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
_HEADER = 60  # bytes before each member: its name in the first 16, its size in ten from the 48th on


def download(package: Package, target: Path) -> None:
    """Raises DownloadFailed where apt does not bring the file, WeightsCorrupt where it is another one."""
    options = _apt(target.parent / "apt")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        _run([*_command(package), *options, f"{package.name}={package.version}"], Path(folder))
        found = Path(folder) / package.artefact
        if not found.exists():
            raise DownloadFailed(f"apt-get brought no {package.artefact}.")
        if file_sha256(found) != package.sha256:
            raise WeightsCorrupt(f"{package.artefact} is not the file that was pinned.")
        found.replace(target)


def data_archive(file: BinaryIO) -> BinaryIO:
    """The tar archive of a .deb that holds what the package installs. Raises WeightsCorrupt."""
    for name, content in _ar_members(file):
        if name.startswith("data.tar"):
            return io.BytesIO(content)
    raise WeightsCorrupt("A file that ends in .deb is no Debian package.")


def _command(package: Package) -> Sequence[str]:
    if package.artefact.endswith(".deb"):
        return "apt-get", "--quiet", "download"
    return "apt-get", "--quiet", "--download-only", "--tar-only", "source"


def _apt(state: Path) -> list[str]:
    """The options of an apt that keeps its lists in `state`; they are fetched once."""
    sources, lists, cache = state / "sources.list", state / "lists", state / "cache"
    settings = {"Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "-", "Dir::State::Lists": lists}
    options = [f"-o{name}={value}" for name, value in {**settings, "Dir::Cache": cache}.items()]
    if not (updated := state / "updated").exists():
        for folder in (lists, cache / "archives"):
            (folder / "partial").mkdir(parents=True, exist_ok=True)
        places = _run(["apt-get", "indextargets", "--format", _PLACE, "Created-By: Packages"], state)
        sources.write_text("".join(f"deb {place}\ndeb-src {place}\n" for place in sorted({*places.splitlines()})))
        _run(["apt-get", "--quiet", *options, "update"], state)
        updated.touch()
    return options


def _run(command: Sequence[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise DownloadFailed("Debian's packages need apt-get, which is not on this machine.") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["It said nothing."]
        raise DownloadFailed(f"apt-get failed: {said[0]}")
    return done.stdout


def _ar_members(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    if file.read(len(_MAGIC)) != _MAGIC:
        return
    while len(header := file.read(_HEADER)) == _HEADER:
        size = int(header[48:58])
        yield header[:16].decode("ascii").rstrip(" /"), file.read(size)
        file.read(size % 2)
