"""Work that takes a while, as `$/progress`; nothing where the client shows none."""

from __future__ import annotations

import asyncio
import itertools
import time

from ghostdraft.lsp_server.jsonrpc import Connection, RpcError

INTERVAL = 0.2  # seconds between two reports of one work
PATIENCE = 5.0  # seconds that a client has to agree

_tokens = itertools.count(1)


class Progress:
    """One piece of work. To be used on the event loop's thread."""

    def __init__(self, connection: Connection, supported: bool) -> None:
        self._connection = connection
        self._token = f"ghostdraft-{next(_tokens)}" if supported else None
        self._reported = 0.0

    async def begin(self, title: str) -> None:
        if self._token is None:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._connection.request("window/workDoneProgress/create", {"token": self._token})
        except (RpcError, TimeoutError):
            self._token = None
            return
        self._send({"kind": "begin", "title": title, "cancellable": False})

    def report(self, message: str, done: int, total: int) -> None:
        """`done` of `total`, whatever the unit; 0 of 0 where that is not known."""
        now = time.monotonic()
        if now - self._reported < INTERVAL:
            return
        self._reported = now
        percentage = {"percentage": 100 * done // total} if total else {}
        self._send({"kind": "report", "message": message, **percentage})

    def end(self, message: str) -> None:
        self._send({"kind": "end", "message": message})

    def _send(self, value: dict[str, object]) -> None:
        if self._token is not None:
            self._connection.notify("$/progress", {"token": self._token, "value": value})
