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
from typing import Protocol, TypeVar

from ghostdraft.completion.types import Budget, Cancel, Completion, Snapshot
from ghostdraft.lsp_server.failures import log_failed_task, log_failure
from ghostdraft.lsp_server.texts import Texts

T = TypeVar("T")


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

    @property
    def note(self) -> str:
        """For the user, where the model does not run as it might now."""

    on_gpu: bool  # whose memory others want, too

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion: ...

    def read_ahead(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> None: ...

    @property
    def measured(self) -> bool: ...

    def measure(self, cancel: Cancel) -> None: ...

    def interrupt(self) -> None: ...

    def close(self) -> None:
        """Frees the model's memory."""


Prepare = Callable[[], Snapshot]
Job = Callable[[Engine, Cancel], Callable[[], T]]
"""Called on the event loop's thread at its turn; what it gives is then called on the engine's."""

Load = Callable[[str, str, int], Engine]
"""Model and drafter by name, and the tokens of its context, to an engine; slow, may raise ModelError."""

LoadWith = Callable[[Texts, str, str, int], Engine]
"""The same, with what its drafter may draft from."""


PATIENCE = 600.0  # seconds
RESTING = "Nothing was asked for a while, so the GPU's memory is free again. The next request loads the model."


class ModelUnavailable(Exception):
    """There is no model to ask; the message says why and what to do."""


class ModelHost:
    """To be used on the event loop's thread. `on_status` hears each change there.

    A GPU's memory is given back after `patience` seconds without a request; the next request loads the model again.
    """

    def __init__(self, load: Load, on_status: Callable[[Status], None], patience: float = PATIENCE) -> None:
        self._load = load
        self._on_status = on_status
        self._patience = patience
        self._rest: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ghostdraft-engine")
        self._turn = asyncio.Lock()
        self._engine: Engine | None = None
        self.engines = 0  # how many there were
        self._loading: asyncio.Task[Exception | None] | None = None
        self._loads = asyncio.Lock()  # one at a time, with all that it leaves behind
        self._at_work: tuple[Engine, threading.Event] | None = None  # and what cancels it
        self.wanted: tuple[str, str, int] | None = None  # model, drafter and context
        self.status = Status(State.OFF)
        self._changed = asyncio.Event()  # of this status

    def load(self, model: str, drafter: str, context: int) -> asyncio.Task[Exception | None]:
        """Begins to load. The returned task gives what the loading raised, None where it did not."""
        self._dismiss()
        self.wanted = (model, drafter, context)
        self.announce(Status(State.LOADING, model))
        self._loading = asyncio.create_task(self._replace(model, drafter, context))
        return self._loading

    def unload(self) -> None:
        self._dismiss()
        self.wanted = None
        self._loading = None
        self.announce(Status(State.OFF))

    def wake(self) -> None:
        """Begins to load again where the memory was given back meanwhile."""
        if self.status.state is State.READY and self._engine is None and self.wanted is not None:
            self.load(*self.wanted)

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
        if not await self.settled():
            raise ModelUnavailable(self.status.message or "Ghostdraft is switched off.")

    async def settled(self) -> bool:
        """Waits while a model is fetched or loaded. Whether there is one then."""
        while self.status.state is State.LOADING:
            await self._changed.wait()
        return self.status.state is State.READY

    @property
    def busy(self) -> bool:
        """Whether the engine works now."""
        return self._at_work is not None

    @property
    def measured(self) -> bool:
        """Whether there is nothing to measure."""
        return self._engine is None or self._engine.measured

    async def complete(self, prepare: Prepare, budget: Budget) -> Completion:
        """Runs the engine on what `prepare` gives at this request's turn. Cancelling this stops the engine."""
        return await self._take_turn(lambda engine, cancel: partial(engine.complete, prepare(), budget, cancel))

    async def read_ahead(self, prepare: Prepare, budget: Budget) -> None:
        """Reads the prompt of what `prepare` gives. Cancelling this stops the engine."""
        await self._take_turn(lambda engine, cancel: partial(engine.read_ahead, prepare(), budget, cancel))

    async def measure(self) -> None:
        """Goes on to measure what the model's passes cost. Cancelling this stops the engine. Raises OSError."""
        await self._take_turn(lambda engine, cancel: partial(engine.measure, cancel))

    async def _take_turn(self, job: Job[T]) -> T:
        """Raises ModelUnavailable."""
        cancel = threading.Event()
        running = asyncio.create_task(self._run(job, cancel))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancel.set()
            if self._at_work is not None and self._at_work[1] is cancel:
                self._at_work[0].interrupt()
            running.add_done_callback(partial(log_failed_task, "the engine"))
            raise

    async def _run(self, job: Job[T], cancel: threading.Event) -> T:
        async with self._turn:
            if cancel.is_set():
                raise asyncio.CancelledError
            if self._engine is None:
                raise ModelUnavailable("The model was exchanged meanwhile: ask again.")
            return await self._work(self._engine, job, cancel)

    async def _work(self, engine: Engine, job: Job[T], cancel: threading.Event) -> T:
        loop = asyncio.get_running_loop()
        self._at_work = engine, cancel
        self._stay()
        try:
            return await loop.run_in_executor(self._thread, job(engine, cancel))
        finally:
            self._at_work = None
            self._rest_later()
            self._tell(engine)

    def _tell(self, engine: Engine) -> None:
        """What there is to say of an engine that is still the one, if that changed."""
        if engine is self._engine and self.status.state is State.READY:
            self.announce(Status(State.READY, self.status.model, engine.note))

    def _stay(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _rest_later(self) -> None:
        self._stay()
        if self._engine is not None and self._engine.on_gpu:
            self._rest = asyncio.get_running_loop().call_later(self._patience, self._give_back)

    def _give_back(self) -> None:
        self._dismiss()
        self.announce(Status(State.READY, self.status.model, RESTING))

    def _dismiss(self) -> None:
        self._stay()
        engine, self._engine = self._engine, None
        if engine is not None:
            self._free(engine)

    def _free(self, engine: Engine) -> None:
        """What it holds of a GPU is free once the thread has come to that."""
        if engine.on_gpu:
            closing = asyncio.wrap_future(self._thread.submit(engine.close))
            closing.add_done_callback(partial(log_failed_task, "giving memory back"))

    async def _replace(self, model: str, drafter: str, context: int) -> Exception | None:
        """A newer wish makes this one and its outcome void."""
        this = asyncio.current_task()
        async with self._loads:
            if self._loading is not this:
                return None
            try:
                engine = await self._loaded(model, drafter, context)
            except Exception as error:  # noqa: BLE001 (whatever it is, it becomes the status)
                return self._failed(model, error) if self._loading is this else None
            if self._loading is this:
                self._take(model, engine)
            else:
                self._free(engine)
            return None

    async def _loaded(self, model: str, drafter: str, context: int) -> Engine:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._load, model, drafter, context)

    def _failed(self, model: str, error: Exception) -> Exception:
        self.announce(Status(State.ERROR, model, sentence_of(error)))
        return error

    def _take(self, model: str, engine: Engine) -> None:
        self._engine = engine
        self.engines += 1
        self._rest_later()
        self.announce(Status(State.READY, model, engine.note))


def load_engine(texts: Texts, model: str, drafter: str, context: int) -> Engine:
    """The real engine, whose prompts fill the context that it got, and a drafter that may draft from `texts`. Raises
    ModelError, in a sentence with the mend."""
    from ghostdraft.completion.context import Window
    from ghostdraft.completion.engine import Engine as RealEngine
    from ghostdraft.drafting.making import make
    from ghostdraft.models.load import load
    from ghostdraft.models.sampling import Sampling

    loaded = load(model, context=context)
    proposer = make(drafter, loaded, texts.datastore())
    return RealEngine(loaded, proposer, Sampling.GREEDY, Window.of(loaded.model.context))


def sentence_of(error: Exception) -> str:
    """What went wrong with a model, for the user."""
    from ghostdraft.models.types import ModelError

    if isinstance(error, ModelError):
        return str(error)
    log_failure("bringing the model", error)
    return f"The model could not be brought up ({type(error).__name__}); the log says where."
