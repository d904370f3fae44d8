"""A program that an editor can start as its language server: answers from a script, and remembers what it was told."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("scripted_server.py")


class Script:
    """`script`: see scripted_server. `folder`: an empty one, for the program and its log."""

    def __init__(self, folder: Path, script: dict[str, Any]) -> None:
        self.program = folder / "scripted"
        self._log = folder / "log"
        (folder / "script.json").write_text(json.dumps(script), "utf-8")
        words = [sys.executable, str(SERVER), str(folder / "script.json"), str(self._log)]
        self.program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        self.program.chmod(0o755)

    def told(self, method: str) -> list[Any]:
        """The parameters of each message of this method, in order."""
        lines = self._log.read_text("utf-8").splitlines() if self._log.exists() else []
        return [params for name, params in map(json.loads, lines) if name == method]
