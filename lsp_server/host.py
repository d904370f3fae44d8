"""The one model of this process and the one thread that it runs on. Knows nothing of connections or documents.

What callers give up on is not waited for, but the thread is theirs no longer only once the engine has stopped: so
snapshots reach the engine in the order in which they were handed out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol

from ghostdraft.completion.types import Budget, Cancel, Completion, Snapshot
from ghostdraft.lsp_server.failures import log_failed_task, log_failure


class State(StrEnum):
    OFF = "off"
    LOADING = "loading"
    READY = "ready"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Status:
    """`message` is a sentence for the user, empty where there is nothing to say."""

    state: State
    model: str = ""
    message: str = ""


class Engine(Protocol):
    """`ghostdraft.completion.engine.Engine`, as far as it is used here."""

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion: ...

    def interrupt(self) -> None: ...


Load = Callable[[str, str], Engine]
"""Model and drafter by name to an engine; slow, may raise ModelError."""


class ModelUnavailable(Exception):
    """There is no model to ask; the message says why and what to do."""


class ModelHost:
    """To be used on the event loop's thread. `on_status` hears each change there."""

    def __init__(self, load: Load, on_status: Callable[[Status], None]) -> None:
        self._load = load
        self._on_status = on_status
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ghostdraft-engine")
        self._turn = asyncio.Lock()
        self._engine: Engine | None = None
        self._loading: asyncio.Task[Exception | None] | None = None
        self._at_work: tuple[Engine, threading.Event] | None = None  # and what cancels it
        self.wanted: tuple[str, str] | None = None  # model and drafter
        self.status = Status(State.OFF)
        self._changed = asyncio.Event()  # of this status

    def load(self, model: str, drafter: str) -> asyncio.Task[Exception | None]:
        """Begins to load. The returned task gives what the loading raised, None where it did not."""
        self._engine = None
        self.wanted = (model, drafter)
        self.announce(Status(State.LOADING, model))
        self._loading = asyncio.create_task(self._replace(model, drafter))
        return self._loading

    def unload(self) -> None:
        self._engine = None
        self.wanted = None
        self._loading = None
        self.announce(Status(State.OFF))

    def announce(self, status: Status) -> None:
        if status != self.status:
            self.status = status
            self._changed.set()
            self._changed = asyncio.Event()
            self._on_status(status)

    async def ready(self) -> None:
        """Waits for the model, trying again where it failed before. Raises ModelUnavailable where none will come."""
        if self.status.state is State.ERROR and self.wanted is not None:
            self.load(*self.wanted)
        while self.status.state is State.LOADING:
            await self._changed.wait()
        if self.status.state is not State.READY:
            raise ModelUnavailable(self.status.message or "Ghostdraft is switched off.")

    async def complete(self, prepare: Callable[[], Snapshot], budget: Budget) -> Completion:
        """Runs the engine on what `prepare` gives at this request's turn. Cancelling this stops the engine."""
        cancel = threading.Event()
        running = asyncio.create_task(self._run(prepare, budget, cancel))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancel.set()
            if self._at_work is not None and self._at_work[1] is cancel:
                self._at_work[0].interrupt()
            running.add_done_callback(partial(log_failed_task, "the engine"))
            raise

    async def _run(self, prepare: Callable[[], Snapshot], budget: Budget, cancel: threading.Event) -> Completion:
        async with self._turn:
            if cancel.is_set():
                raise asyncio.CancelledError
            if self._engine is None:
                raise ModelUnavailable("The model was exchanged meanwhile: ask again.")
            return await self._work(self._engine, prepare(), budget, cancel)

    async def _work(self, engine: Engine, snapshot: Snapshot, budget: Budget, cancel: threading.Event) -> Completion:
        loop = asyncio.get_running_loop()
        self._at_work = engine, cancel
        try:
            return await loop.run_in_executor(self._thread, engine.complete, snapshot, budget, cancel)
        finally:
            self._at_work = None

    async def _replace(self, model: str, drafter: str) -> Exception | None:
        """A newer wish makes the outcome of this one void."""
        loop, this = asyncio.get_running_loop(), asyncio.current_task()
        try:
            engine = await loop.run_in_executor(self._thread, self._load, model, drafter)
        except Exception as error:  # noqa: BLE001 (whatever it is, it becomes the status)
            if self._loading is this:
                self.announce(Status(State.ERROR, model, sentence_of(error)))
            return error
        if self._loading is this:
            self._engine = engine
            self.announce(Status(State.READY, model))
        return None


def load_engine(model: str, drafter: str) -> Engine:
    """The real engine. Raises ModelError, in a sentence with the mend."""
    from ghostdraft.completion.engine import Engine as RealEngine
    from ghostdraft.drafting import make
    from ghostdraft.models.load import load
    from ghostdraft.models.sampling import Sampling
    from ghostdraft.models.types import ModelError

    proposer = make(drafter)
    if proposer is None:
        raise ModelError(f"There is no drafter {drafter}. Use ngram or none.")
    return RealEngine(load(model), proposer, Sampling.GREEDY)


def sentence_of(error: Exception) -> str:
    """What went wrong with a model, for the user."""
    from ghostdraft.models.types import ModelError

    if isinstance(error, ModelError):
        return str(error)
    log_failure("bringing the model", error)
    return f"The model could not be brought up ({type(error).__name__}); the log says where."
