"""llama.cpp is compiled once; tools that are missing and compilers that fail are told. Nothing is fetched here."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pytest

from ghostdraft.benchmarks import llama_build
from ghostdraft.benchmarks.corpus import Corpus
from ghostdraft.benchmarks.json_lines import PeerFailed
from ghostdraft.models.store import HOME_VARIABLE

CMAKE = f"""#!{sys.executable}
import sys
from pathlib import Path
print("[1/2] Building")
if "--build" in sys.argv:
    program = Path(sys.argv[sys.argv.index("--build") + 1]) / "bin" / sys.argv[sys.argv.index("--target") + 1]
    program.parent.mkdir(parents=True)
    program.write_text("")
else:
    assert (Path(sys.argv[sys.argv.index("-S") + 1]) / "CMakeLists.txt").exists()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the source package in the bench's cache, and no tools on the path."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    archive = Corpus.open().path(llama_build.SOURCE)
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        for name in ("llama_cpp/__init__.py", "llama_cpp/llama_cpp.py", "vendor/llama.cpp/CMakeLists.txt"):
            _add(file, f"llama_cpp_python-0/{name}", b"import what_is_not_here")
    return tmp_path


def _add(file: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    file.addfile(entry, io.BytesIO(content))


def tools(home: Path, cmake: str = CMAKE) -> None:
    for name in ("cmake", "ninja"):
        (home / name).write_text(cmake)
        (home / name).chmod(0o755)


def test_it_is_compiled_once(home: Path) -> None:
    tools(home)
    build = llama_build.native()
    assert build.server.exists()
    (home / "cmake").unlink()
    assert llama_build.native() == build


def test_the_bindings_import_nothing_beside_the_library(home: Path) -> None:
    tools(home)
    build = llama_build.native()
    package = build.source / "llama_cpp"
    assert (package / "__init__.py").read_text() == ""
    assert (package / "llama_cpp.py").read_text() != ""
    assert build.environment["PYTHONPATH"].startswith(str(build.source))
    assert Path(build.environment["LLAMA_CPP_LIB_PATH"]) == build.server.parent


def test_a_missing_tool_is_named_with_the_mend(home: Path) -> None:
    with pytest.raises(PeerFailed, match=r"needs cmake: .*pip install cmake ninja"):
        llama_build.native()
    assert not (home / "bench" / "llama.cpp-0.3.36").exists()


def test_a_compiler_that_fails_leaves_a_log_and_is_tried_again(home: Path) -> None:
    tools(home, f"#!{home / 'python'}\n")
    (home / "python").write_text("#!/bin/sh\necho no compiler\nexit 1\n")
    (home / "python").chmod(0o755)
    with pytest.raises(PeerFailed, match=r"build\.log") as failed:
        llama_build.native()
    log = Path(str(failed.value).split("the end of ")[1].rstrip("."))
    assert log.read_text() == "no compiler\n"
    tools(home)
    assert llama_build.native().server.exists()
