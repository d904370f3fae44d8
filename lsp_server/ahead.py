"""What the engine does while its user rests: it reads the prompt at the cursor, which the next request then finds in
the cache, and measures once what the model's passes cost here. Never on battery; what happens in the editor ends it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ghostdraft.lsp_server.failures import log_failed_task
from ghostdraft.lsp_server.host import ModelHost, ModelUnavailable
from ghostdraft.lsp_server.power import on_battery
from ghostdraft.lsp_server.session import Capture

REST = 0.02  # seconds without a key: editors ask 50 ms behind it, and are to find the key read
LONG_REST = 10.0  # seconds behind that, before anything is measured
POWER_REMEMBERED = 10.0  # seconds: the files that tell are not read behind each key

Look = Callable[[], Capture | None]


class Ahead:
    """To be used on the event loop's thread."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._task: asyncio.Task[None] | None = None
        self._place: object = None  # that is being read, or will be once the user rests
        self._read_last: tuple[int, object] | None = None  # which engine read what to the end: it needs no more there
        self._on_battery = False
        self._looked = -math.inf  # when that was found out

    def rest(self, place: object, look: Look) -> None:
        """The user may rest from now on. `look` captures the document once they do; None: nothing is to be read.

        `place`: what it captures and where. Reading that is on the way for the same place goes on: a request there
        needs nothing else before it. It is remembered, so it is to hold no document alive.
        """
        if place == self._place:
            return
        self.stop()
        self._place = place
        self._task = asyncio.create_task(self._work(place, look))
        self._task.add_done_callback(partial(log_failed_task, "working ahead"))

    def stop(self) -> None:
        self._place = None
        if self._task is not None:
            self._task.cancel()

    async def _work(self, place: object, look: Look) -> None:
        with suppress(ModelUnavailable):  # exchanged meanwhile
            if await self._read(place, look):
                await self._measure()

    async def _read(self, place: object, look: Look) -> bool:
        """Whether there was something to read, now or before."""
        try:
            await asyncio.sleep(REST)
            if not await self._may():
                return False
            reading = self._host.engines, place
            if reading == self._read_last:
                return True
            if (seen := look()) is None:
                return False
            await self._host.read_ahead(seen.hand_out, seen.budget)
            self._read_last = reading
            return True
        finally:
            if self._task is asyncio.current_task():
                self._place = None

    async def _measure(self) -> None:
        if not self._host.measured:
            await asyncio.sleep(LONG_REST)
            if await self._may():
                await self._host.measure()

    async def _may(self) -> bool:
        return await self._host.settled() and not await self._drains()

    async def _drains(self) -> bool:
        """Whether this machine runs on battery, or did a moment ago."""
        now = time.monotonic()
        if now - self._looked >= POWER_REMEMBERED:
            self._on_battery = await asyncio.to_thread(on_battery)
            self._looked = now
        return self._on_battery
