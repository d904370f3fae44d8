"""Types keystrokes into a real server in real time and asks for ghost text, as the editors' extensions do.

Each key cancels the request before it. A request leaves `DEBOUNCE` after its key, unless the next key comes first.
Counts nothing; knows nothing of models.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.benchmarks.lsp_client import Client, Message, ServerEnded
from ghostdraft.benchmarks.process import ticked_seconds
from ghostdraft.benchmarks.replay import Answer, Note, Press, Replay, gaps, is_sampled, samples, works
from ghostdraft.benchmarks.typing_model import Keystroke
from ghostdraft.completion.scene import LINE_BREAK

DEBOUNCE = 0.05  # seconds; what the Neovim extension has
SERVER = (sys.executable, "-P", "-m", "ghostdraft.benchmarks.replay_server")
AUTOMATIC = 2
UNLIMITED = {"languages": {"default": {"budget_ms": 600_000}}}


@dataclass(frozen=True, slots=True)
class Caret:
    """A place in a document as the protocol counts: columns in UTF-16 units."""

    line: int
    character: int

    def after(self, text: str) -> Caret:
        """Behind `text`, once that is put here."""
        *lines, last = LINE_BREAK.split(text)
        width = len(last.encode("utf-16-le", "surrogatepass")) // 2
        return Caret(self.line + len(lines), width if lines else self.character + width)

    def as_json(self) -> dict[str, int]:
        return {"line": self.line, "character": self.character}


class Mailbox:
    """The server's answers to requests, as a thread of its own reads them; `Answer.at` is `time.perf_counter()`.

    A request that was cancelled or refused has no answer here.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._came = threading.Condition()
        self._answers: dict[int, Answer | None] = {}
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    def answers(self) -> Mapping[int, Answer]:
        """What came until now, by the request's id."""
        with self._came:
            return {request: answer for request, answer in self._answers.items() if answer is not None}

    def has(self, request: int) -> bool:
        with self._came:
            return request in self._answers

    def wait_for(self, request: int) -> None:
        """Raises ServerEnded."""
        with self._came:
            self._came.wait_for(lambda: request in self._answers or self._ended)
            if request not in self._answers:
                raise ServerEnded("The server ended.")

    def _listen(self) -> None:
        try:
            while True:
                message = self._client.read()
                now = time.perf_counter()
                if "id" in message and "method" not in message:
                    self._put(message["id"], _answer(message, now))
        except (ServerEnded, OSError, ValueError):
            with self._came:
                self._ended = True
                self._came.notify()

    def _put(self, request: int, answer: Answer | None) -> None:
        with self._came:
            self._answers[request] = answer
            self._came.notify()


@contextmanager
def serving(model: str, drafter: str, finishes: bool, server: Sequence[str] = SERVER) -> Iterator[Editor]:
    """An editor with a server of its own, whose model is loaded; `server` is the command, but for the path of the
    notes behind it. Raises ServerEnded."""
    with noting(model, server, drafter=drafter, **(UNLIMITED if finishes else {})) as (client, notes):
        client.wait_until_ready()
        yield Editor(client, notes, finishes)


@contextmanager
def noting(model: str, server: Sequence[str], **options: object) -> Iterator[tuple[Client, TextIO]]:
    """A server that was started and no more, and what its engine notes of its work. Raises ServerEnded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "notes")
        with path.open("w+", encoding="utf-8") as notes, Client(model, (*server, str(path)), **options) as client:
            client.initialize()
            yield client, notes


class Editor:
    """One server for all that is typed here; `notes` is what it writes about its work. `finishes`: a pause that is a
    sample lasts until the answer is there, which has no deadline."""

    def __init__(self, client: Client, notes: TextIO, finishes: bool) -> None:
        self._client = client
        self._notes = notes
        self._finishes = finishes
        self._pid = client.process.pid
        self._mailbox = Mailbox(client)
        self._version = 0

    def play(self, cursor: Cursor, strokes: Sequence[Keystroke]) -> Replay:
        """Types `strokes` at the cursor. The request behind the last key is waited for, and so all notes are there.

        Raises ServerEnded.
        """
        self._open(cursor)
        before = ticked_seconds(self._pid)
        presses = self._type(strokes)
        cpu = ticked_seconds(self._pid) - before
        self._client.notify("textDocument/didClose", {"textDocument": {"uri": self._uri}})
        answers = self._mailbox.answers()
        notes = [Note(**json.loads(line)) for line in self._notes]
        found = samples(presses, answers, cursor.body)
        return Replay(tuple(found), tuple(works(notes, presses, answers)), strokes[-1].at, cpu)

    def _open(self, cursor: Cursor) -> None:
        self._uri = f"file:///{quote(cursor.name)}"
        self._caret = Caret(0, 0).after(cursor.text[: cursor.offset])
        self._pending: int | None = None
        document = {"uri": self._uri, "languageId": cursor.language, "version": self._version, "text": cursor.text}
        self._client.notify("textDocument/didOpen", {"textDocument": document})

    def _type(self, strokes: Sequence[Keystroke]) -> list[Press]:
        presses, due = list[Press](), time.perf_counter()
        for stroke, gap in zip(strokes, gaps(strokes), strict=True):
            _sleep_until(due)
            presses.append(self._press(stroke.text, gap))
            due = max(due + gap, time.perf_counter())
        return presses

    def _press(self, text: str, gap: float) -> Press:
        pressed, finish = time.perf_counter(), self._finishes and is_sampled(gap)
        self._cancel()
        self._change(text)
        if gap > DEBOUNCE:
            _sleep_until(pressed + DEBOUNCE)
            self._pending = self._ask()
            if finish or gap == math.inf:
                self._mailbox.wait_for(self._pending)
        return Press(text, pressed, gap, self._version, self._pending)

    def _cancel(self) -> None:
        if self._pending is not None and not self._mailbox.has(self._pending):
            self._client.notify("$/cancelRequest", {"id": self._pending})
        self._pending = None

    def _change(self, text: str) -> None:
        self._version += 1
        place = self._caret.as_json()
        change = {"range": {"start": place, "end": place}, "text": text}
        document = {"uri": self._uri, "version": self._version}
        self._client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        self._caret = self._caret.after(text)

    def _ask(self) -> int:
        wish = {
            "textDocument": {"uri": self._uri},
            "position": self._caret.as_json(),
            "context": {"triggerKind": AUTOMATIC},
        }
        return self._client.ask("textDocument/inlineCompletion", wish)


def _answer(message: Message, at: float) -> Answer | None:
    """None for an error: cancelled, or refused."""
    if "error" in message:
        return None
    items = (message["result"] or {"items": []})["items"]
    return Answer(at, items[0]["insertText"] if items else "")


def _sleep_until(due: float) -> None:
    time.sleep(max(0.0, due - time.perf_counter()))
