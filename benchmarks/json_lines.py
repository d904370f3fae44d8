"""A process that answers one JSON line with another: how a bench drives what must not share its own process.

A request is {"op": NAME, ...arguments}, an answer {"result": ...} or {"error": SENTENCE}. Knows no operation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self


class PeerFailed(Exception):
    """A peer said no, or is not there; the message is for the user."""


class PeerProcess:
    """`absent` is what the user reads where the process does not run; `environment` is added to ours."""

    def __init__(self, command: Sequence[str], absent: str, environment: Mapping[str, str] | None = None) -> None:
        self._absent = absent
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, op: str, **arguments: Any) -> Any:
        """The result of one operation. Raises PeerFailed."""
        try:
            self._pipe(self._process.stdin).write(json.dumps({"op": op, **arguments}) + "\n")
            self._pipe(self._process.stdin).flush()
        except BrokenPipeError:
            raise PeerFailed(self._absent) from None
        answer = self._pipe(self._process.stdout).readline()
        if not answer:
            raise PeerFailed(self._absent)
        reply = json.loads(answer)
        if "error" in reply:
            raise PeerFailed(reply["error"])
        return reply["result"]

    def _pipe(self, stream: IO[str] | None) -> IO[str]:
        if stream is None:
            raise PeerFailed(self._absent)
        return stream


def serve(operations: Mapping[str, Callable[..., Any]]) -> None:
    """Answers standard input until it ends; a RuntimeError of an operation is told, and the next one is served."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"result": operations[request.pop("op")](**request)}
        except RuntimeError as error:
            reply = {"error": str(error)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
