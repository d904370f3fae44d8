"""Keeps the texts of the workspace's files ready for a drafter that copies from them: in the background, a few
milliseconds at a time, and never while the model works.

Knows nothing of what is read and how; until such a drafter is wanted, nothing is, nor is anything for it imported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ghostdraft.completion.policy import Policy
from ghostdraft.lsp_server.failures import log_failed_task
from ghostdraft.lsp_server.texts import Texts

if TYPE_CHECKING:
    from ghostdraft.completion.workspace import Workspace
    from ghostdraft.lsp_server.host import ModelHost

SLICE = 0.005  # seconds of work at a time, and as many of rest
BUSY = 0.05  # seconds until it is seen again whether the model works
LEAST_BETWEEN = 10.0  # seconds from the end of one scan to the next


class Indexing:
    """To be used on the event loop's thread."""

    def __init__(self, texts: Texts, policy_of: Callable[[Path], Policy], host: ModelHost) -> None:
        self._texts = texts
        self._policy_of = policy_of
        self._host = host
        self._folders: dict[Path, None] = {}
        self._open: tuple[Path, ...] = ()
        self._workspace: Workspace | None = None
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def want(self, wanted: bool) -> None:
        """Whether the texts are to be kept ready from now on."""
        if not wanted:
            self.stop()
        elif self._task is None:
            self._due.set()
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(partial(log_failed_task, "reading the workspace"))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def add_folder(self, folder: Path) -> None:
        self._folders[folder] = None
        self._due.set()

    def remove_folder(self, folder: Path) -> None:
        self._folders.pop(folder, None)
        self._due.set()

    def look_again(self) -> None:
        """Some files may have changed."""
        self._due.set()

    def exclude(self, paths: Iterable[Path | None]) -> None:
        """These are open in the editor: what is on the disk is not to be copied from."""
        self._open = tuple(path for path in paths if path is not None)
        if self._workspace is not None:
            self._workspace.exclude(self._open)

    async def _work(self) -> None:
        self._workspace = await asyncio.to_thread(self._made)
        self._workspace.exclude(self._open)
        while True:
            await self._due.wait()
            self._due.clear()
            await self._scan(self._workspace.scan(tuple(self._folders)))
            await asyncio.sleep(LEAST_BETWEEN)

    async def _scan(self, steps: Iterator[None]) -> None:
        more = True
        while more:
            while self._host.busy:
                await asyncio.sleep(BUSY)
            more = await asyncio.to_thread(_advance, steps)
            await asyncio.sleep(SLICE)

    def _made(self) -> Workspace:
        from ghostdraft.completion.workspace import Workspace

        return self._workspace or Workspace(self._texts.datastore(), self._policy_of)


def _advance(steps: Iterator[None]) -> bool:
    """Some steps; whether there are more."""
    end = time.monotonic() + SLICE
    return any(time.monotonic() >= end for _ in steps)
