"""A server started in a workspace that wants to be run: every documented way runs none of it and obeys none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stdio_client import SERVE, SERVE_AS_MODULE, StdioClient, did_open, inline_completion

pytestmark = pytest.mark.model("tiny")

MODULES = (
    "models.py",
    "completion/__init__.py",
    "torch.py",
    "sitecustomize.py",
    "usercustomize.py",
    "ghostdraft/__init__.py",
    "ghostdraft/lsp_server/__init__.py",
    "lsp_server.py",
    "numpy.py",
    "tokenizers.py",
    "tree_sitter.py",
    "tree_sitter_python.py",
    "psutil.py",
    "platformdirs.py",
    "tomllib.py",
    "asyncio.py",
    "json.py",
    "typer.py",
)
SETTINGS = """
model = "./evil.gguf"
drafter = "none"
engine = "./evil.so"
path = "/bin/sh"
command = ["touch", "obeyed"]
max_tokens = 1000
exclude = ["*.secret.py"]

[languages.python]
budget_ms = 500000
trigger = "auto"

[folders."/"]
model = "evil"
"""
WAYS = {"script": SERVE, "short": SERVE[:2], "module": SERVE_AS_MODULE}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    marker = root / "marks"
    marker.mkdir(parents=True)
    for module in MODULES:
        path = root / module
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(f"open({str(marker / module.replace('/', '.'))!r}, 'w').close()\n")
    (root / ".ghostdraft.toml").write_text(SETTINGS)
    (root / "config.toml").write_text(SETTINGS)
    for program in ("cc", "gcc", "clang", "nvidia-smi"):
        path = root / program
        path.write_text(f"#!/bin/sh\ntouch {marker / program}\n")
        path.chmod(0o755)
    return root


def config(folder: Path) -> dict[str, str]:
    path = folder / "user.toml"
    path.write_text('model = "tiny"\n[languages.python]\nmax_tokens = 20\n')
    return {"GHOSTDRAFT_CONFIG": str(path)}


def was_run(workspace: Path) -> list[str]:
    return sorted(path.name for path in (workspace / "marks").iterdir())


@pytest.mark.parametrize("way", WAYS)
def test_the_server_runs_none_and_obeys_none(workspace: Path, way: str) -> None:
    hostile = {"model": "evil", "path": "/bin/sh", "languages": {"python": {"max_tokens": 900, "trigger": "auto"}}}
    folders = [{"uri": workspace.as_uri(), "name": "workspace"}]
    uri = (workspace / "shapes.py").as_uri()
    with StdioClient(WAYS[way], cwd=workspace, env=config(workspace.parent)) as client:
        client.initialize(workspaceFolders=folders, initializationOptions={"workspace": hostile})
        client.wait_until_ready()
        assert {status["model"] for status in client.notifications("ghostdraft/status")} == {"tiny"}
        client.write(did_open(uri, "def area(width, height):\n    return width"))
        assert client.result(client.ask("textDocument/inlineCompletion", inline_completion(uri, 1, 16)))
        (message,) = [shown["message"] for shown in client.notifications("window/showMessage")]
        assert client.exit() == 0
    assert was_run(workspace) == []
    for key in ("model", "drafter", "engine", "path", "command", "max_tokens", "budget_ms"):
        assert f"{key}` is ignored" in message or f"no setting `{key}`" in message


def test_started_carelessly_it_would_run(workspace: Path) -> None:
    """So the marks can be seen."""
    command = [sys.executable, "-m", "ghostdraft.lsp_server", "--help"]
    subprocess.run(command, cwd=workspace, capture_output=True, check=False)
    assert was_run(workspace) != []


@pytest.mark.parametrize(
    "command", [("complete", "shapes.py:2:17", "--json", "--max-tokens", "4"), ("doctor", "--json")]
)
def test_the_command_line_runs_none(workspace: Path, command: Sequence[str]) -> None:
    (workspace / "shapes.py").write_text("def area(width, height):\n    return width\n")
    for program in ([SERVE[0]], [sys.executable, "-P", "-m", "ghostdraft.lsp_server"]):
        done: Any = subprocess.run(
            [*program, *command], cwd=workspace, env={**os.environ, **config(workspace.parent)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        assert "evil" not in done.stdout
    assert was_run(workspace) == []
