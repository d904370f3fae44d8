"""The completions that one client waits for: the newest request of a document wins, the older one is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ghostdraft.completion.types import Budget, Completion, Snapshot
from ghostdraft.lsp_server.host import ModelHost, ModelUnavailable, State
from ghostdraft.lsp_server.jsonrpc import ErrorCode, RpcError

if TYPE_CHECKING:
    from ghostdraft.lsp_server.documents import Document


@dataclass(frozen=True, slots=True)
class Capture:
    """A document as it stood, and the budget for what is written there.

    `mark`: of the document then, whose edits the snapshot still lacks; None where the snapshot's text is not the
    document's.
    """

    document: Document
    mark: int | None
    snapshot: Snapshot
    budget: Budget

    def hand_out(self) -> Snapshot:
        """The snapshot with its edits, at its turn: from here on the engine knows this text."""
        if self.mark is None:
            self.document.break_chain()
            return self.snapshot
        return replace(self.snapshot, edits=self.document.hand_out(self.mark))


@dataclass(frozen=True, slots=True)
class Request:
    """A request as things stood when its message was read; `present` makes the answer."""

    capture: Capture
    invoked: bool
    present: Callable[[Completion], object]


class Session:
    """To be used on the event loop's thread."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._current: dict[str, asyncio.Task[object]] = {}

    def submit(self, request: Request) -> asyncio.Task[object]:
        """The answer to come; None where there is nothing to show. Cancels the document's older request."""
        uri = request.capture.snapshot.uri
        self.cancel(uri)
        task = asyncio.create_task(self._answer(request))
        self._current[uri] = task
        task.add_done_callback(lambda done: self._forget(uri, done))
        return task

    def cancel(self, uri: str) -> None:
        """Cancels what runs for this document."""
        if (older := self._current.pop(uri, None)) is not None:
            older.cancel()

    async def _answer(self, request: Request) -> object:
        self._host.wake()
        if self._host.status.state is not State.READY and not request.invoked:
            return None
        try:
            await self._host.ready()
            completion = await self._host.complete(request.capture.hand_out, request.capture.budget)
        except ModelUnavailable as error:
            raise RpcError(ErrorCode.REQUEST_FAILED, str(error)) from error
        return request.present(completion) if completion.text else None

    def _forget(self, uri: str, done: asyncio.Task[object]) -> None:
        if self._current.get(uri) is done:
            del self._current[uri]
