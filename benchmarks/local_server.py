"""A language server on this event loop and its one client, for benches that time the processor or watch the engine."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ghostdraft.completion.engine import Engine
from ghostdraft.lsp_server.server import Server
from ghostdraft.lsp_server.setting_sources import Read
from ghostdraft.lsp_server.settings import Settings


class LocalServer:
    """Suggests with `engine`, at most `max_tokens` at a time."""

    def __init__(self, engine: Engine, max_tokens: int) -> None:
        self._server = Server(Settings(Read()), (), lambda *_: engine, lambda *_: None, self._take)
        self._answers: list[asyncio.Future[dict[str, Any]]] = []
        self._options = {"max_tokens": max_tokens}

    def open(self, uri: str, text: str) -> None:
        self.ask("initialize", {"processId": None, "capabilities": {}, "initializationOptions": self._options})
        self.notify("initialized", {})
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def ask(self, method: str, params: object) -> int:
        """The request's id."""
        self._answers.append(asyncio.get_running_loop().create_future())
        self._receive({"id": len(self._answers), "method": method, "params": params})
        return len(self._answers)

    def answer(self, request: int) -> asyncio.Future[dict[str, Any]]:
        """The message that answers it, to come or here."""
        return self._answers[request - 1]

    def notify(self, method: str, params: object) -> None:
        self._receive({"method": method, "params": params})

    def _receive(self, message: dict[str, Any]) -> None:
        self._server.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def _take(self, body: bytes) -> None:
        message = json.loads(body)
        if "method" not in message:
            self._answers[message["id"] - 1].set_result(message)
