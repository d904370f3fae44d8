"""Brings the model that the settings name to the host, and tells the client how that goes: status, progress, offers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from ghostdraft.lsp_server.failures import log_failed_task
from ghostdraft.lsp_server.host import Load, ModelHost, State, Status, sentence_of
from ghostdraft.lsp_server.jsonrpc import Connection, ErrorCode, RpcError
from ghostdraft.lsp_server.progress import Progress

if TYPE_CHECKING:
    from ghostdraft.models.progress import Stage, Watch

logger = logging.getLogger(__name__)

Pull = Callable[[str, "Watch"], object]
"""Fetches a model by name into the store; slow, may raise ModelError."""

STATUS = "ghostdraft/status"
PULL = "Pull"
NOT_NOW = "Not now"
ERROR, WARNING, INFO = 1, 2, 3  # window/showMessage


class ModelKeeper:
    """To be used on the event loop's thread."""

    def __init__(self, connection: Connection, load: Load, pull: Pull) -> None:
        self.host = ModelHost(load, self.tell_status)
        self.shows_progress = False
        self._connection = connection
        self._pull = pull
        self._tasks: set[asyncio.Task[None]] = set()
        self._pulls: dict[str, asyncio.Task[None]] = {}  # by model, those in flight

    def want(self, model: str, drafter: str, context: int) -> None:
        """From now on this model, with this drafter and so many tokens of context."""
        if (model, drafter, context) != self.host.wanted:
            self._begin(self._follow(model, self.host.load(model, drafter, context)))

    def want_none(self) -> None:
        self.host.unload()

    def pull(self) -> asyncio.Task[None]:
        """Fetches the wanted model and loads it. Raises RpcError where none is wanted, the task where that fails."""
        if self.host.wanted is None:
            raise RpcError(ErrorCode.REQUEST_FAILED, "Ghostdraft is switched off: no model is wanted.")
        return self._pulled(self.host.wanted[0])

    def tell_status(self, status: Status) -> None:
        logger.info("model %s is %s", status.model or "-", status.state)
        message = status.message or (_note() if status.state is State.READY else "")
        self._connection.notify(STATUS, {"state": status.state, "model": status.model, "message": message})

    def tell(self, kind: int, message: str) -> None:
        self._connection.notify("window/showMessage", {"type": kind, "message": message})

    async def _follow(self, model: str, loading: asyncio.Task[Exception | None]) -> None:
        """Shows how the loading goes, and what to do where it failed."""
        progress = Progress(self._connection, self.shows_progress)
        await progress.begin(f"Ghostdraft: loading {model}")
        failure = await loading
        progress.end(self.host.status.state)
        if failure is not None:
            await self._help(model, failure)

    async def _help(self, model: str, failure: Exception) -> None:
        from ghostdraft.models.types import ModelNotFound

        if isinstance(failure, ModelNotFound):
            await self._offer(model)
        else:
            self.tell(ERROR, self.host.status.message)

    async def _offer(self, model: str) -> None:
        """Says what is missing, and pulls it where the user wants that."""
        from ghostdraft.models.registry import MODELS

        known = MODELS.get(model)
        if known is None:
            self.tell(ERROR, self.host.status.message)
            return
        size = f"{known.file.size / 1e6:,.0f} MB, " if known.file else ""
        question = f"Ghostdraft: the model {model} ({size}{known.licence}) is not on this disk yet. Pull it now?"
        actions = [{"title": PULL}, {"title": NOT_NOW}]
        try:
            answer = await self._connection.request(
                "window/showMessageRequest", {"type": INFO, "message": question, "actions": actions}
            )
        except RpcError:
            return
        if isinstance(answer, dict) and answer.get("title") == PULL:
            self._pulled(model)

    def _pulled(self, model: str) -> asyncio.Task[None]:
        """The pull of this model that is in flight, else a new one. Models are pulled side by side."""
        if model not in self._pulls:
            self._pulls[model] = self._begin(self._fetch_and_load(model))
            self._pulls[model].add_done_callback(lambda _: self._pulls.pop(model))
        return self._pulls[model]

    async def _fetch_and_load(self, model: str) -> None:
        await self._fetch(model)
        if self.host.wanted is not None and self.host.wanted[0] == model:
            await self._follow(model, self.host.load(*self.host.wanted))

    async def _fetch(self, model: str) -> None:
        """The status is another model's where one was chosen meanwhile: that stays."""
        pulling = Status(State.LOADING, model, f"Pulling {model}.")
        if self.host.status.model == model:
            self.host.announce(pulling)
        progress = Progress(self._connection, self.shows_progress)
        await progress.begin(f"Ghostdraft: pulling {model}")
        try:
            await asyncio.to_thread(self._pull, model, self._watch(progress))
        except Exception as error:
            sentence = sentence_of(error)
            if self.host.status == pulling:
                self.host.announce(Status(State.ERROR, model, sentence))
            self.tell(ERROR, sentence)
            raise RpcError(ErrorCode.REQUEST_FAILED, sentence) from error
        finally:
            progress.end(model)

    def _watch(self, progress: Progress) -> Watch:
        from ghostdraft.models.progress import Watch

        loop = asyncio.get_running_loop()

        def advanced(stage: Stage, done: int, total: int) -> None:
            loop.call_soon_threadsafe(progress.report, stage.value, done, total)

        return Watch(advanced=advanced)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the event loop holds tasks by weak references only
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(partial(log_failed_task, "bringing the model"))
        return task


def _note() -> str:
    """What a user whose model is ready may still want to know."""
    from ghostdraft.lsp_server.machine import gpu_note

    return gpu_note()


def pull_model(model: str, watch: Watch) -> None:
    """Into the user's store. Raises ModelError."""
    from ghostdraft.models.acquire import pull
    from ghostdraft.models.store import Store

    pull(Store(), model, watch)
