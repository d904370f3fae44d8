"""A peer that serves HTTP in a process of its own, which runs inside `with`. Knows nothing of what it is asked."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from ghostdraft.benchmarks.json_lines import PeerFailed

LOOK = 0.02  # seconds between two looks at a server that starts
START = 600.0  # seconds in which it has to
ANSWER = 600.0  # seconds for one request


class HttpPeer:
    """`command` serves on `port` of this machine and answers GET /health once it is ready; `environment` is added to
    ours. What enters or asks raises PeerFailed."""

    def __init__(self, command: Sequence[str], port: int, environment: Mapping[str, str] | None = None) -> None:
        self.port = port
        self._command, self._environment = command, {**os.environ, **(environment or {})}
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=ANSWER, trust_env=False)

    def __enter__(self) -> Self:
        self.process = self._start()
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def ask(self, path: str, wish: Mapping[str, Any]) -> Any:
        """What it answers to a POST, from JSON."""
        try:
            answer = self._http.post(path, json=wish)
        except httpx.HTTPError as error:
            raise PeerFailed(f"{self._command[0]} does not answer: {error}") from error
        if answer.is_error:
            raise PeerFailed(f"{self._command[0]} refuses {path} with status {answer.status_code}.")
        return answer.json()

    def _start(self) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        try:
            return subprocess.Popen(self._command, stdin=quiet, stdout=quiet, stderr=quiet, env=self._environment)
        except OSError as error:
            raise PeerFailed(f"{self._command[0]}: {error.strerror}.") from error

    def _wait_until_ready(self) -> None:
        last = time.monotonic() + START
        while time.monotonic() < last and self.process.poll() is None:
            if self._is_ready():
                return
            time.sleep(LOOK)
        raise PeerFailed(f"A peer does not start. Run it by hand to see why: {' '.join(self._command)}")

    def _is_ready(self) -> bool:
        try:
            return self._http.get("/health").is_success
        except httpx.TransportError:
            return False

    def _end(self) -> None:
        self._http.close()
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
