"""Finds the compiled engine: built with the package, or else by a compiler of this machine into the user's cache.

Compilers tried in order: $CC, cc, gcc, clang, and the one in the `ziglang` package.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

from ghostdraft.models.types import EngineUnavailable

FOLDER = Path(__file__).parent
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=off", "-shared", "-fPIC", "-pthread")
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


@cache
def library() -> ctypes.CDLL:
    """Raises EngineUnavailable where there is neither a compiled engine nor a compiler."""
    path = _built_with_package() or _built_here()
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise EngineUnavailable(
            f"The CPU engine {path} cannot be loaded ({error}). Delete it and try again."
        ) from error


def compilers() -> list[list[str]]:
    """Commands of the C compilers that are here."""
    named = [shlex.split(os.environ["CC"])] if os.environ.get("CC") else []
    found = [[path] for path in map(shutil.which, ("cc", "gcc", "clang")) if path]
    zig = [[sys.executable, "-P", "-m", "ziglang", "cc"]] if importlib.util.find_spec("ziglang") else []
    return named + found + zig


def _built_with_package() -> Path | None:
    """None where a checkout's sources changed since it was built."""
    names = (f"_kernel{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    built = next((FOLDER / name for name in names if (FOLDER / name).exists()), None)
    if built is not None and (FOLDER.parents[1] / "pyproject.toml").exists():
        newest = max(source.stat().st_mtime for source in _sources())
        return built if newest <= built.stat().st_mtime else None
    return built


def _built_here() -> Path:
    target = platformdirs.user_cache_path("ghostdraft") / f"engine-{fingerprint()}{_SUFFIX}"
    if not target.exists():
        _build(target)
    return target


def fingerprint() -> str:
    """Of the engine's sources: other sources may be faster or slower."""
    contents = b"".join(source.read_bytes() for source in _sources())
    return hashlib.sha256(contents + " ".join(FLAGS).encode()).hexdigest()[:16]


def _sources() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.suffix in (".c", ".h"))


def _build(target: Path) -> None:
    problems = []
    for compiler in compilers():
        problem = compile_engine(compiler, target)
        if problem is None:
            return
        problems.append(f"{compiler[0]}: {problem}")
    tried = f" Tried: {'; '.join(problems)}" if problems else ""
    raise EngineUnavailable(
        "The CPU engine is not compiled and no C compiler works here. "
        f"Install one, for example with: {Path(sys.executable).name} -m pip install ziglang.{tried}"
    )


def compile_engine(compiler: list[str], target: Path, extra: tuple[str, ...] = ()) -> str | None:
    """Builds the engine at `target`, whole or not at all; the first line of the compiler's complaint, or None."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            unfinished = Path(folder) / target.name
            command = [*compiler, *FLAGS, *extra, str(FOLDER / "engine.c"), "-o", str(unfinished), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
            os.replace(unfinished, target)
    except OSError as error:
        return str(error)
    return None
