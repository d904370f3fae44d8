"""From a client's wish for inline completions to a request of its session: text, budget and rules as they stand now."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable
from functools import partial

from ghostdraft.completion.types import Completion, OtherBuffer, Snapshot, Trigger
from ghostdraft.lsp_server import convert
from ghostdraft.lsp_server.convert import Place
from ghostdraft.lsp_server.documents import Document, Documents
from ghostdraft.lsp_server.host import ModelHost
from ghostdraft.lsp_server.jsonrpc import ErrorCode, RpcError
from ghostdraft.lsp_server.protocol import INVOKED, InlineCompletion
from ghostdraft.lsp_server.session import Request, Session
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
        self._ids = itertools.count(1)

    def ask(self, wanted: InlineCompletion, arrival: float) -> Awaitable[object] | None:
        """The answer to come, None for nothing. `arrival`: seconds of `time.monotonic()`.

        Where nothing may be suggested, one that asks by hand is told why by an RpcError.
        """
        document = self._documents.get(wanted.text_document.uri)
        self._session.cancel(document.uri)
        place = convert.place(document, wanted, self.encoding)
        snapshot = self._snapshot(document, place)
        options = self._options(document)
        invoked = wanted.context.trigger_kind == INVOKED
        if (refusal := _refusal(options, snapshot, invoked)) is not None:
            if invoked:
                raise RpcError(ErrorCode.REQUEST_FAILED, refusal)
            return None
        budget = options.budgets.of(document.language_id).starting(arrival, invoked)
        mark = None if place.before else document.mark
        return self._session.submit(Request(document, mark, snapshot, budget, invoked, partial(self._present, place)))

    def cancel(self, uri: str) -> None:
        self._session.cancel(uri)

    def accepted(self, item: str) -> None:
        """The user took this item."""
        logger.info("item %s was accepted", item if item.isdecimal() else "unknown")

    def _snapshot(self, document: Document, place: Place) -> Snapshot:
        others = tuple(self._readable(other) for other in self._documents.others(document.uri))
        readable = tuple(other for other in others if other is not None)
        return Snapshot(document.uri, document.version, document.language_id, place.text, place.cursor, others=readable)

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
