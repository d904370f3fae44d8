"""A server in this process with a fake engine: messages in, messages out, nothing between."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from typing import Any

from ghostdraft.lsp_server.host import Engine, Load
from ghostdraft.lsp_server.server import Server
from ghostdraft.lsp_server.setting_sources import Read
from ghostdraft.lsp_server.settings import Settings
from ghostdraft.lsp_server.texts import Texts
from ghostdraft.models.progress import Watch
from tests.fakes import FakeEngine

Message = dict[str, Any]

URI = "file:///project/main.py"
PATIENCE = 5.0  # seconds


def never_pull(model: str, _watch: Watch) -> None:
    raise AssertionError(f"nobody asked to pull {model}")


class Harness:
    def __init__(
        self,
        engine: Engine | None = None,
        load: Load | None = None,
        pull: Callable[[str, Watch], object] = never_pull,
    ) -> None:
        self.engine = engine or FakeEngine()
        self.sent: list[Message] = []
        self.texts: Texts | None = None  # that the last engine was to draft from
        self._load = load or (lambda *_: self.engine)
        self.server = Server(Settings(Read()), (), self._load_with, pull, self._write)
        self._ids = itertools.count(1)

    def _load_with(self, texts: Texts, model: str, drafter: str, context: int) -> Engine:
        self.texts = texts
        return self._load(model, drafter, context)

    def _write(self, body: bytes) -> None:
        message = json.loads(body)
        assert message["jsonrpc"] == "2.0"
        self.sent.append(message)

    def notify(self, method: str, params: object = None) -> None:
        self.server.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def ask(self, method: str, params: object = None) -> int:
        request = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request, "method": method, "params": params}
        self.server.receive(json.dumps(message).encode())
        return request

    def cancel(self, request: int) -> None:
        self.notify("$/cancelRequest", {"id": request})

    async def until(self, found: Callable[[], Any]) -> Any:
        """What `found` finds, as soon as it does."""
        async with asyncio.timeout(PATIENCE):
            while not (what := found()):
                await asyncio.sleep(0.001)
        return what

    async def answer(self, request: int) -> Message:
        def found() -> list[Message]:
            return [message for message in self.sent if message.get("id") == request and "method" not in message]

        (message,) = await self.until(found)
        return message

    async def result(self, request: int) -> Any:
        answer = await self.answer(request)
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, request: int) -> Message:
        answer = await self.answer(request)
        assert "error" in answer, answer
        return answer["error"]

    def notifications(self, method: str) -> list[Any]:
        return [message["params"] for message in self.sent if message.get("method") == method]

    async def start(self, options: object = None, capabilities: object = None, **params: Any) -> Any:
        wanted = {"capabilities": capabilities or {}, "processId": None, "initializationOptions": options, **params}
        result = await self.result(self.ask("initialize", wanted))
        self.notify("initialized", {})
        return result

    async def ready(self) -> None:
        await self.until(
            lambda: {"state": "ready"}.items() <= (self.notifications("ghostdraft/status") or [{}])[-1].items()
        )

    def open(self, text: str, uri: str = URI, language: str = "python") -> None:
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def type(self, line: int, character: int, text: str, uri: str = URI, version: int = 2) -> None:
        place = {"line": line, "character": character}
        changes = [{"range": {"start": place, "end": place}, "text": text}]
        self.notify(
            "textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": changes}
        )

    def complete(self, line: int, character: int, uri: str = URI, invoked: bool = True, **context: Any) -> int:
        return self.ask("textDocument/inlineCompletion", inline_completion(line, character, uri, invoked, **context))


def inline_completion(line: int, character: int, uri: str = URI, invoked: bool = True, **context: Any) -> Message:
    return {
        "textDocument": {"uri": uri},
        "position": {"line": line, "character": character},
        "context": {"triggerKind": 1 if invoked else 2, **context},
    }


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)
