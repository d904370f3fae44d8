"""A language server with no model: it says what a script tells it to say, always the same. For tests of the editors.

`python scripted_server.py SCRIPT LOG serve --stdio`. SCRIPT is JSON: `answers`, the first one fitting wins, each with
`after` (how the line before the cursor ends), `text`, and optionally `rest` (the text takes in what stands behind the
cursor), `delay` in seconds and `deaf` (it does not heed a cancel); `error`, a message in place of readiness; `loading`,
seconds until then. LOG gets one JSON line for each message that came in: [method, params].
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]
CANCELLED = -32800


class ScriptedServer:
    def __init__(self, script: Path, log: Path) -> None:
        self.script: Message = json.loads(script.read_text("utf-8"))
        self.log = log
        self.encoding = "utf-16"
        self.documents: dict[str, str] = {}
        self.waiting: dict[int | str, threading.Timer] = {}
        self.writing = threading.Lock()

    def run(self) -> None:
        while (message := self.read()) is not None and message.get("method") != "exit":
            if "method" in message:
                self.note(message)
                self.handle(message)

    def handle(self, message: Message) -> None:
        handler = HANDLERS.get(message["method"])
        result = handler(self, message) if handler else None
        if "id" in message and result is not LATER:
            self.reply(message["id"], result)

    def initialize(self, message: Message) -> Message:
        offered = message["params"]["capabilities"].get("general", {}).get("positionEncodings", [])
        self.encoding = "utf-8" if "utf-8" in offered else "utf-16"
        capabilities = {
            "positionEncoding": self.encoding,
            "textDocumentSync": {"openClose": True, "change": 1},
            "inlineCompletionProvider": {},
            "executeCommandProvider": {"commands": ["scripted.accepted"]},
        }
        return {"capabilities": capabilities, "serverInfo": {"name": "scripted", "version": "1"}}

    def initialized(self, _: Message) -> None:
        error = self.script.get("error")
        status = {"state": "error", "message": error} if error else {"state": "ready", "model": "scripted"}
        self.send({"method": "ghostdraft/status", "params": {"state": "loading", "model": "scripted"}})
        loaded = {"method": "ghostdraft/status", "params": status}
        self.later(self.script.get("loading", 0), self.send, loaded)

    def did_open(self, message: Message) -> None:
        document = message["params"]["textDocument"]
        self.documents[document["uri"]] = document["text"]

    def did_change(self, message: Message) -> None:
        params = message["params"]
        self.documents[params["textDocument"]["uri"]] = params["contentChanges"][-1]["text"]

    def cancel(self, message: Message) -> None:
        number = message["params"]["id"]
        if timer := self.waiting.pop(number, None):
            timer.cancel()
            self.send({"id": number, "error": {"code": CANCELLED, "message": "cancelled"}})

    def inline_completion(self, message: Message) -> object:
        number, delay, items = message["id"], 0.0, []
        if answer := self.answer(message["params"]):
            delay, items = answer.get("delay", 0.0), [self.item(answer, message["params"])]
        timer = self.later(delay, self.reply, number, {"items": items})
        if not (answer and answer.get("deaf")):
            self.waiting[number] = timer
        return LATER

    def answer(self, params: Message) -> Message | None:
        before, _ = self.around(params)
        return next((answer for answer in self.script["answers"] if before.endswith(answer["after"])), None)

    def item(self, answer: Message, params: Message) -> Message:
        start, (_, behind) = params["position"], self.around(params)
        end = {**start, "character": start["character"] + len(behind) // self.unit} if answer.get("rest") else start
        command = {"title": "accepted", "command": "scripted.accepted", "arguments": [answer["text"]]}
        return {"insertText": answer["text"], "range": {"start": start, "end": end}, "command": command}

    def around(self, params: Message) -> tuple[str, bytes]:
        """The cursor's line: before the cursor as text, behind it as bytes of the agreed encoding."""
        position = params["position"]
        line = self.documents[params["textDocument"]["uri"]].split("\n")[position["line"] :][:1]
        encoded = "".join(line).encode(self.codec)
        cut = position["character"] * self.unit
        return encoded[:cut].decode(self.codec), encoded[cut:]

    @property
    def codec(self) -> str:
        return {"utf-8": "utf-8", "utf-16": "utf-16-le"}[self.encoding]

    @property
    def unit(self) -> int:
        return {"utf-8": 1, "utf-16": 2}[self.encoding]

    def later(self, delay: float, action: Callable[..., None], *arguments: object) -> threading.Timer:
        timer = threading.Timer(delay, action, arguments)
        timer.daemon = True
        timer.start()
        return timer

    def reply(self, number: int | str, result: object) -> None:
        self.waiting.pop(number, None)
        self.send({"id": number, "result": result})

    def note(self, message: Message) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps([message["method"], message.get("params")]) + "\n")

    def read(self) -> Message | None:
        length = 0
        while line := sys.stdin.buffer.readline().strip():
            name, value = line.split(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(sys.stdin.buffer.read(length)) if length else None

    def send(self, message: Message) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        with self.writing:
            sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            sys.stdout.buffer.flush()


LATER = object()
HANDLERS = {
    "initialize": ScriptedServer.initialize,
    "initialized": ScriptedServer.initialized,
    "textDocument/didOpen": ScriptedServer.did_open,
    "textDocument/didChange": ScriptedServer.did_change,
    "textDocument/inlineCompletion": ScriptedServer.inline_completion,
    "$/cancelRequest": ScriptedServer.cancel,
}

if __name__ == "__main__":
    ScriptedServer(Path(sys.argv[1]), Path(sys.argv[2])).run()
