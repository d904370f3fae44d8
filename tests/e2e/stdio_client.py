"""A raw client over a real process: it can put several messages into one write, and sees every byte that comes back."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

Message = dict[str, Any]

SCRIPTS = Path(sys.executable).parent
SERVE = (str(SCRIPTS / "ghostdraft"), "serve", "--stdio")
SERVE_AS_MODULE = (sys.executable, "-P", "-m", "ghostdraft.lsp_server", "serve", "--stdio")
PATIENCE = 120.0  # seconds; generous, since the machine may be busy


def framed(message: Message) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class StdioClient:
    def __init__(
        self, command: Sequence[str] = SERVE, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.received: list[Message] = []
        self.log = b""
        self.garbage = b""
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_log)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> StdioClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(5)

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            if not header.startswith(b"Content-Length: "):
                self.garbage += header
                continue
            stream.readline()
            message = json.loads(stream.read(int(header.split()[1])))
            with self._changed:
                self.received.append(message)
                self._changed.notify_all()

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        while chunk := self.process.stderr.read1(65536):
            self.log += chunk

    def write(self, *messages: Message) -> None:
        """All in one write."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(map(framed, messages)))
        self.process.stdin.flush()

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def request(self, method: str, params: object = None) -> Message:
        return {"id": next(self._ids), "method": method, "params": params}

    def ask(self, method: str, params: object = None) -> int:
        message = self.request(method, params)
        self.write(message)
        return int(message["id"])

    def notify(self, method: str, params: object = None) -> None:
        self.write({"method": method, "params": params})

    def until(self, found: Callable[[list[Message]], Any], patience: float = PATIENCE) -> Any:
        """What `found` finds in all that was received, as soon as it does."""
        end = time.monotonic() + patience
        with self._changed:
            while not (what := found(self.received)):
                left = end - time.monotonic()
                assert left > 0, f"nothing came in {patience} s; log: {self.log.decode()}"
                self._changed.wait(left)
        return what

    def answer(self, request: int, patience: float = PATIENCE) -> Message:
        def found(messages: list[Message]) -> Message | None:
            return next((one for one in messages if one.get("id") == request and "method" not in one), None)

        answer: Message = self.until(found, patience)
        return answer

    def result(self, request: int) -> Any:
        answer = self.answer(request)
        assert "error" not in answer, answer
        return answer["result"]

    def notifications(self, method: str) -> list[Any]:
        return [message["params"] for message in self.received if message.get("method") == method]

    def initialize(self, **params: Any) -> Any:
        result = self.result(self.ask("initialize", {"processId": os.getpid(), "capabilities": {}, **params}))
        self.notify("initialized", {})
        return result

    def wait_until_ready(self) -> None:
        self.until(lambda _: self.statuses() and self.statuses()[-1] in ("ready", "error"))
        assert self.statuses()[-1] == "ready", self.notifications("ghostdraft/status")

    def statuses(self) -> list[str]:
        return [status["state"] for status in self.notifications("ghostdraft/status")]

    def exit(self) -> int:
        """The exit status after shutdown and exit."""
        assert self.result(self.ask("shutdown")) is None
        self.notify("exit")
        return self.process.wait(10)


def did_open(uri: str, text: str, language: str = "python") -> Message:
    document = {"uri": uri, "languageId": language, "version": 1, "text": text}
    return {"method": "textDocument/didOpen", "params": {"textDocument": document}}


def did_change(uri: str, line: int, character: int, text: str, version: int = 2) -> Message:
    place = {"line": line, "character": character}
    params = {
        "textDocument": {"uri": uri, "version": version},
        "contentChanges": [{"range": {"start": place, "end": place}, "text": text}],
    }
    return {"method": "textDocument/didChange", "params": params}


def inline_completion(uri: str, line: int, character: int, invoked: bool = True) -> Message:
    return {
        "textDocument": {"uri": uri},
        "position": {"line": line, "character": character},
        "context": {"triggerKind": 1 if invoked else 2},
    }


def seconds_until_ready(env: Mapping[str, str]) -> float:
    """From the start of the process until its model is ready."""
    start = time.perf_counter()
    with StdioClient(SERVE, env=env) as client:
        client.initialize()
        client.wait_until_ready()
        return time.perf_counter() - start
