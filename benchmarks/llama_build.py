"""llama.cpp compiled for this machine, once, in the bench's folder: its server, its library, its Python bindings.

The source is the one that llama-cpp-python's source package carries, from the package index and checked by its sha256.
Compiling needs CMake, Ninja and a C++ compiler, and takes 5 to 30 minutes. Knows nothing of what is measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from ghostdraft.benchmarks.corpus import Corpus
from ghostdraft.benchmarks.holes import Package
from ghostdraft.benchmarks.json_lines import PeerFailed
from ghostdraft.benchmarks.report import Bar
from ghostdraft.models.disk import disk_errors

SOURCE = Package(
    registry="pypi",
    name="llama-cpp-python",
    version="0.3.36",
    artefact="llama_cpp_python-0.3.36.tar.gz",
    sha256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    licence="MIT",
)
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "GGML_NATIVE": "ON",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_APP": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
TARGET = "llama-server"
MEND = "python -m pip install cmake ninja"

_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # what Ninja begins its lines with


@dataclass(frozen=True, slots=True)
class Build:
    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def server(self) -> Path:
        """The last file that compiling makes: it is there, or the build has not ended."""
        return self.folder / "build" / "bin" / TARGET

    @property
    def about(self) -> str:
        return f"llama.cpp as in {SOURCE.name} {SOURCE.version}"

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    @property
    def environment(self) -> dict[str, str]:
        """With these variables a Python imports `llama_cpp` from here, with the library compiled here."""
        paths = [str(self.source), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(paths), "LLAMA_CPP_LIB_PATH": str(self.server.parent)}


def native() -> Build:
    """Compiled now where it is not yet, which is told. Raises PeerFailed, DownloadFailed, WeightsCorrupt, OutOfSpace,
    ModelError."""
    corpus = Corpus.open()
    build = Build(corpus.folder / f"llama.cpp-{SOURCE.version}")
    if not build.server.exists():
        tools = _tool("cmake"), _tool("ninja")
        typer.echo(f"Compiling llama.cpp for this machine, once, in {build.folder}: 5 to 30 minutes.", err=True)
        with Bar("llama.cpp") as bar, disk_errors(build.folder):
            corpus.fetch([SOURCE], bar.show)
            unpack(corpus.path(SOURCE), build.source)
            _compile(build, *tools, bar)
    return build


def unpack(archive: Path, folder: Path) -> None:
    """What stands in the archive's one folder. The bindings lose what they import beside the library."""
    unfinished = folder.with_name(folder.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as content:
        content.extractall(unfinished, filter="data")
    (top,) = unfinished.iterdir()
    (top / "llama_cpp" / "__init__.py").write_text("", encoding="utf-8")
    top.replace(folder)
    unfinished.rmdir()


def _compile(build: Build, cmake: str, ninja: str, bar: Bar) -> None:
    source, target = str(build.source / "vendor" / "llama.cpp"), str(build.server.parent.parent)
    options = [f"-D{name}={value}" for name, value in OPTIONS.items()]
    with build.log.open("w", encoding="utf-8") as log:
        for command in (
            [cmake, "-S", source, "-B", target, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *options],
            [cmake, "--build", target, "--target", TARGET],
        ):
            if _watched(command, log.write, bar):
                raise PeerFailed(f"llama.cpp could not be compiled here: see the end of {build.log}.")


def _watched(command: Sequence[str], write: Callable[[str], object], bar: Bar) -> int:
    """The exit status. Its lines are written, and their counts shown."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            write(line)
            if step := _STEP.match(line):
                bar.show(int(step[1]), int(step[2]))
    return process.returncode


def _tool(name: str) -> str:
    """From this Python's own scripts, or from the path. Raises PeerFailed."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which(name, path=places)
    if found is None:
        raise PeerFailed(f"Compiling llama.cpp needs {name}: {MEND}")
    return found
