"""A client of the language server for benches: it starts the process, sends messages and reads them, and blocks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any

Message = dict[str, Any]

SERVER = (sys.executable, "-P", "-m", "ghostdraft.lsp_server", "serve", "--stdio")


class ServerEnded(Exception):
    """The server ended before it answered."""


class Client:
    """`options` are settings for the server beside its model; `server` is the command that starts it.

    What sends or reads raises ServerEnded.
    """

    def __init__(self, model: str, server: Sequence[str] = SERVER, **options: object) -> None:
        self._options = {"model": model, **options}
        self._ids = 0
        self.process = subprocess.Popen(
            server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()

    def initialize(self) -> None:
        """Asks, and waits for the answer."""
        params = {"processId": None, "capabilities": {}, "initializationOptions": self._options}
        request = self.ask("initialize", params)
        self.read_until(lambda message: message.get("id") == request)

    def wait_until_ready(self) -> None:
        """Raises ServerEnded where the model will not come."""
        self.notify("initialized", {})
        found = self.read_until(
            lambda message: message.get("method") == "ghostdraft/status" and message["params"]["state"] != "loading"
        )
        if found["params"]["state"] != "ready":
            raise ServerEnded(found["params"]["message"] or "The model was not loaded.")

    def ask(self, method: str, params: object) -> int:
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params})
        return self._ids

    def notify(self, method: str, params: object) -> None:
        self._send({"method": method, "params": params})

    def read_until(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message that is wanted; those before it are dropped. Raises ServerEnded."""
        while not wanted(message := self.read()):
            pass
        return message

    def read(self) -> Message:
        """Raises ServerEnded."""
        outgoing = _pipe(self.process.stdout)
        length = 0
        while line := outgoing.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = outgoing.read(length)
        if not body:
            raise ServerEnded("The server ended.")
        message: Message = json.loads(body)
        return message

    def _send(self, message: Message) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        incoming = _pipe(self.process.stdin)
        try:
            incoming.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            incoming.flush()
        except BrokenPipeError as error:
            raise ServerEnded("The server ended.") from error


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ServerEnded("The server has no pipe.")
    return stream
