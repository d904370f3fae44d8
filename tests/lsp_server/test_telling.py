"""Output that nobody can take: told in a sentence, or not at all, by the real program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ghostdraft.lsp_server import __version__

PROGRAM = (sys.executable, "-P", "-m", "ghostdraft.lsp_server")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.platform
@pytest.mark.parametrize(
    "arguments",
    [
        ("models", "list"),
        ("models", "list", "--json"),
        ("--version",),
        ("--help",),
        ("complete", "--help"),
        ("models", "--help"),
    ],
)
def test_a_full_disk_behind_the_output_is_one_sentence(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=_home(tmp_path)
        )
    assert done.returncode == 2
    assert done.stderr == "ghostdraft: The output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("arguments", [("models", "list"), ("models", "list", "--json"), ("--help",)])
def test_a_reader_that_went_away_is_no_error_to_tell(arguments: tuple[str, ...], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(
            [*PROGRAM, *arguments], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, env=_home(tmp_path)
        )
    assert done.stderr == ""
    assert done.returncode == 1


def test_the_version() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ghostdraft {__version__}\n"


def _home(folder: Path) -> dict[str, str]:
    return {**os.environ, "GHOSTDRAFT_HOME": str(folder)}
