"""What the engine does while its user rests: it reads the prompt at the cursor, which the next request then finds in
the cache, and measures once what the model's passes cost here. Never on battery; what happens in the editor ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ghostdraft.lsp_server.failures import log_failed_task
from ghostdraft.lsp_server.host import ModelHost, ModelUnavailable
from ghostdraft.lsp_server.power import on_battery
from ghostdraft.lsp_server.session import Capture

REST = 0.1  # seconds without a key: who types on needs the processor for that
LONG_REST = 10.0  # seconds behind that, before anything is measured

Look = Callable[[], Capture | None]


class Ahead:
    """To be used on the event loop's thread."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._task: asyncio.Task[None] | None = None

    def rest(self, look: Look) -> None:
        """The user may rest from now on. `look` captures the document once they do; None: nothing is to be read."""
        self.stop()
        self._task = asyncio.create_task(self._work(look))
        self._task.add_done_callback(partial(log_failed_task, "working ahead"))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _work(self, look: Look) -> None:
        await asyncio.sleep(REST)
        if await self._may() and (seen := look()) is not None:
            try:
                await self._host.read_ahead(seen.hand_out, seen.budget)
                await self._measure()
            except ModelUnavailable:  # exchanged meanwhile
                return

    async def _measure(self) -> None:
        if not self._host.measured:
            await asyncio.sleep(LONG_REST)
            if await self._may():
                await self._host.measure()

    async def _may(self) -> bool:
        return await self._host.settled() and not await asyncio.to_thread(on_battery)
