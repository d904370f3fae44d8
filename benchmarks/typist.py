"""Types into a real server for benches: each key an edit and a request as by hand, answered before the next.

Its documents are made up, as long as is wanted. Counts nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from ghostdraft.benchmarks.lsp_client import Client
from ghostdraft.benchmarks.replay import Note
from ghostdraft.benchmarks.replay_editor import SERVER, noting

TYPED = "    return round(width * height, 2) if height else None"
ROOM = 4 * len(TYPED)  # code points that may be typed before the prompt's start moves on
BEHIND = 65_536  # code points behind the cursor: more is never looked at
PLACE = """\
def area_{0}_{1}(width, height=None):
    side = height or width
    return round(width * side * {0}, 2)

PLACE_{0} = Place(x={0}, y={1}, name="place {0} of {1}", visible={0} > {1})
"""


@dataclass(frozen=True, slots=True)
class Key:
    """Milliseconds from a key to its answer, and of these in the model; and the tokens of its prompt."""

    total: float
    model: float
    prompt: int


@dataclass(frozen=True, slots=True)
class Document:
    """Where `before` ends is the cursor."""

    before: str
    behind: str


class Typist:
    """Documents in a server, and what its engine notes of its work. Raises ServerEnded."""

    def __init__(self, client: Client, notes: TextIO) -> None:
        self._client = client
        self._notes = notes
        self._opened = 0
        self._version = 0
        self.pid = client.process.pid

    def open(self, document: Document) -> str:
        """Gives the document's URI, which none had before."""
        self._opened += 1
        uri = f"file:///bench/opened_{self._opened}.py"
        self._line, self._column = document.before.count("\n"), 0
        text = document.before + document.behind
        opened = {"uri": uri, "languageId": "python", "version": self._version, "text": text}
        self._client.notify("textDocument/didOpen", {"textDocument": opened})
        return uri

    def close(self, uri: str) -> None:
        self._client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def key(self, uri: str, letter: str) -> Key:
        """Types it into the document that was opened last, asks, and waits for the answer."""
        started = time.perf_counter()
        self._type(uri, letter)
        request = self._ask(uri)
        self._answer(request)
        total = 1e3 * (time.perf_counter() - started)
        notes = (Note(**json.loads(line)) for line in self._notes)
        *_, note = (note for note in notes if not note.ahead)
        return Key(total, note.model_ms, note.prompt)

    def give_up(self, uri: str, requests: int) -> None:
        """Asks, and each time cancels at once; returns when all are answered."""
        for _ in range(requests):
            request = self._ask(uri)
            self._client.notify("$/cancelRequest", {"id": request})
            self._answer(request)

    def _answer(self, request: int) -> None:
        self._client.read_until(lambda message: message.get("id") == request and "method" not in message)

    def _type(self, uri: str, letter: str) -> None:
        self._version += 1
        place = self._place()
        change = {"range": {"start": place, "end": place}, "text": letter}
        document = {"uri": uri, "version": self._version}
        self._client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        self._line, self._column = (self._line + 1, 0) if letter == "\n" else (self._line, self._column + 1)

    def _ask(self, uri: str) -> int:
        wish = {"textDocument": {"uri": uri}, "position": self._place(), "context": {"triggerKind": 1}}
        return self._client.ask("textDocument/inlineCompletion", wish)

    def _place(self) -> dict[str, int]:
        return {"line": self._line, "character": self._column}


def document(number: int, context: int, length: int = 0) -> Document:
    """One that differs from others from its first line on. Its `length`, by default what the model is shown, ends a
    little before the place where the prompt's start moves on."""
    end = length or 2 * context
    lines = "".join(PLACE.format(place, number) for place in range((end + BEHIND) // 100))
    before = lines[: end - ROOM].rpartition("\n")[0] + "\n\n\ndef typed(width, height):\n"
    return Document(before, "\n\n" + lines[end : end + BEHIND])


@contextmanager
def serving(model: str, **options: object) -> Iterator[tuple[Client, Typist]]:
    """A server that was started and no more, and who types into it. Raises ServerEnded."""
    with noting(model, SERVER, **options) as (client, notes):
        yield client, Typist(client, notes)
