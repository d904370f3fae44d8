"""From a client's wish for inline completions to a request of its session: text, budget and rules as they stand now."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Awaitable
from functools import partial
from weakref import ref

from ghostdraft.completion.context import Window
from ghostdraft.completion.types import Completion, OtherBuffer, Snapshot, Trigger
from ghostdraft.lsp_server import convert
from ghostdraft.lsp_server.ahead import Ahead
from ghostdraft.lsp_server.convert import Place
from ghostdraft.lsp_server.documents import Document, Documents
from ghostdraft.lsp_server.host import ModelHost
from ghostdraft.lsp_server.jsonrpc import ErrorCode, RpcError
from ghostdraft.lsp_server.protocol import INVOKED, InlineCompletion, Position
from ghostdraft.lsp_server.session import Capture, Request, Session
from ghostdraft.lsp_server.settings import Options, Settings

logger = logging.getLogger(__name__)

_OFF = {
    Trigger.OFF: "The settings switch suggestions off here.",
    Trigger.INVOKED: "The settings allow suggestions by hand only here.",
}


class Completions:
    """To be used on the event loop's thread."""

    def __init__(self, documents: Documents, settings: Settings, host: ModelHost) -> None:
        self.encoding = convert.DEFAULT_ENCODING
        self._documents = documents
        self._settings = settings
        self._session = Session(host)
        self._ahead = Ahead(host)
        self._ids = itertools.count(1)

    def ask(self, wanted: InlineCompletion, arrival: float) -> Awaitable[object] | None:
        """The answer to come, None for nothing. `arrival`: seconds of `time.monotonic()`.

        Where nothing may be suggested, one that asks by hand is told why by an RpcError.
        """
        document = self._documents.get(wanted.text_document.uri)
        self._session.cancel(document.uri)
        place = convert.place(document, wanted, self.encoding)
        document.cursor = None if place.before else place.cursor
        self.rest(document)
        snapshot = self._snapshot(document, place.text, place.cursor)
        options = self._options(document)
        invoked = wanted.context.trigger_kind == INVOKED
        if (refusal := _refusal(options, snapshot, invoked)) is not None:
            if invoked:
                raise RpcError(ErrorCode.REQUEST_FAILED, refusal)
            return None
        budget = options.budgets.of(document.language_id).starting(arrival, invoked)
        capture = Capture(document, None if place.before else document.mark, snapshot, budget)
        return self._session.submit(Request(capture, invoked, partial(self._present, place)))

    def opened(self, document: Document) -> None:
        """Where the cursor is not known, it is taken to be at the end of a short document: read up to there, it is also
        read up to every other place, where the model takes no text behind the cursor."""
        window = Window.of(self._options(document).context)
        if document.cursor is None and len(document.text) <= window.prefix:
            document.cursor = len(document.text)
        self.rest(document)

    def moved(self, document: Document, position: Position) -> None:
        """The cursor went there without an edit."""
        document.cursor = document.offset(convert.point(document, position, self.encoding))
        self.rest(document)

    def rest(self, document: Document) -> None:
        """The user may rest in this document from now on."""
        place = ref(document), document.version, document.cursor
        self._ahead.rest(place, partial(self._captured, document))

    def cancel(self, uri: str) -> None:
        self._session.cancel(uri)

    def close(self) -> None:
        """Nothing is read ahead any more."""
        self._ahead.stop()

    def accepted(self, item: str) -> None:
        """The user took this item."""
        logger.info("item %s was accepted", item if item.isdecimal() else "unknown")

    def _captured(self, document: Document) -> Capture | None:
        """The document at its cursor; None where that is not known, or nothing may be suggested."""
        if document.cursor is None or not self._documents.holds(document):
            return None
        snapshot, options = self._snapshot(document, document.text, document.cursor), self._options(document)
        if _refusal(options, snapshot, invoked=True) is not None:
            return None
        budget = options.budgets.of(document.language_id).starting(time.monotonic(), invoked=True)
        return Capture(document, document.mark, snapshot, budget)

    def _snapshot(self, document: Document, text: str, cursor: int) -> Snapshot:
        others = tuple(self._readable(other) for other in self._documents.others(document.uri))
        readable = tuple(other for other in others if other is not None)
        return Snapshot(document.uri, document.version, document.language_id, text, cursor, others=readable)

    def _readable(self, document: Document) -> OtherBuffer | None:
        """Another buffer, unless the rules keep it out of suggestions elsewhere."""
        buffer = OtherBuffer(document.uri, document.language_id, document.text)
        return buffer if self._options(document).policy.readable([buffer]) else None

    def _options(self, document: Document) -> Options:
        return self._settings.options(convert.path_of(document.uri))

    def _present(self, place: Place, completion: Completion) -> dict[str, object]:
        return {"items": [convert.item(completion, place, self.encoding, str(next(self._ids)))]}


def _refusal(options: Options, snapshot: Snapshot, invoked: bool) -> str | None:
    """Why nothing may be suggested, in a sentence; None: go on."""
    budget = options.budgets.of(snapshot.language_id)
    return options.policy.refusal(snapshot) if budget.allows(invoked) else _OFF[budget.trigger]
