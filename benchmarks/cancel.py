"""How soon a cancelled request stops the model, and what a burst of cancelled requests leaves behind.

    python -m ghostdraft.benchmarks.cancel --model tiny

The server runs in this process, its messages as a client would send them; the model counts its passes. A request is
cancelled so long after its first pass began, in a cold prompt or in decoding; what counts is the time until the last
pass ended. The burst goes to a server in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil
import typer

from ghostdraft.benchmarks.local_server import LocalServer
from ghostdraft.benchmarks.lsp_client import Client, ServerEnded
from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.engine import Engine
from ghostdraft.completion.types import Step, Verify
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.models.load import Loaded, load
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import ModelError

LATEST = 0.8  # seconds after the first pass began
URI = "file:///bench/main.py"
CANCELLED = -32800
BURST = 1000
TICK = 0.0005  # seconds between two looks
IDLE = 1.0  # seconds in which an idle process is watched
COLUMNS = ("ms until it stops, in", "count", "p50", "p99", "most")
LINES = 300  # of the document before the cursor


@dataclass(frozen=True, slots=True)
class Trial:
    """Seconds; `stopped` counts from the cancelling message until the engine ended, None where it was done before."""

    kind: Literal["prefill", "verify"]
    delay: float
    stopped: float | None


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Of a burst: how many requests were answered, how many of them with "cancelled", and the load a while later."""

    sent: int
    answered: int
    cancelled: int
    seconds: float
    cpu_after: float  # share of one core


class Watched(Decoder):
    """Tells when its first pass began, when it ended, and of which kind the last pass was."""

    running = False
    began = 0.0
    ended = 0.0
    kind: Literal["prefill", "verify"] = "prefill"

    def run(self, prompt_ids: Sequence[int], buffers: Sequence[Sequence[int]], *limits: Any) -> Iterator[Step]:
        try:
            for step in super().run(prompt_ids, buffers, *limits):
                self.kind = "verify" if isinstance(step, Verify) else "prefill"
                if not step.token_ids:  # what the cache held: the first pass comes next
                    self.began, self.running = time.perf_counter(), True
                yield step
        finally:
            self.ended, self.running = time.perf_counter(), False

    def read(self, *_: Any) -> Iterator[Step]:
        """Nothing: what a trial reads is its own."""
        return iter(())


class Bench:
    """A server on this event loop, and a document in it."""

    def __init__(self, loaded: Loaded, text: str) -> None:
        self._text = text
        engine = Engine(loaded, NgramDrafter(), Sampling.GREEDY)
        self._decoder = engine.decoder = Watched(loaded.model, NgramDrafter(), Sampling.GREEDY, engine.decoder.costs)
        self._server = LocalServer(engine, max_tokens=256)

    def open(self) -> None:
        self._server.open(URI, self._text)

    async def trial(self, delay: float, cold: bool) -> Trial:
        """Cancels a request `delay` seconds after its first pass began; a cold one has to read its prompt first."""
        if cold:
            self._decoder.forget()
        self._decoder.began = 0.0
        request = self._ask()
        answer = self._server.answer(request)
        await _until(lambda: self._decoder.began > 0.0)
        await _until(lambda: time.perf_counter() >= self._decoder.began + delay)
        running, cancelled = self._decoder.running, time.perf_counter()
        self._server.notify("$/cancelRequest", {"id": request})
        await _until(lambda: not self._decoder.running and answer.done())
        return Trial(self._decoder.kind, delay, self._decoder.ended - cancelled if running else None)

    async def warm(self) -> None:
        """Lets a request run to its end, so that the next one finds its prompt in the cache."""
        await self._server.answer(self._ask())

    def _ask(self) -> int:
        return self._server.ask("textDocument/inlineCompletion", _wish(self._text))


async def trials(loaded: Loaded, count: int, text: str, bar: Bar) -> list[Trial]:
    """`count` delays from 0 to LATEST with a cold prompt, and as many with a warm one; the cursor ends `text`."""
    bench, found = Bench(loaded, text), list[Trial]()
    bench.open()
    for cold in (True, False):
        if not cold:
            await bench.warm()
        for i in range(count):
            bar.show(len(found), 2 * count)
            found.append(await bench.trial(LATEST * i / max(1, count - 1), cold))
    return found


def burst(model: str) -> Aftermath:
    """Requests to a server in a process of its own, each cancelled at once. Raises ServerEnded."""
    with Client(model) as client:
        client.initialize()
        client.wait_until_ready()
        text = _text()
        document = {"uri": URI, "languageId": "python", "version": 1, "text": text}
        client.notify("textDocument/didOpen", {"textDocument": document})
        start = time.perf_counter()
        sender = threading.Thread(target=_fire, args=(client, _wish(text)))
        sender.start()
        answers = [client.read_until(lambda message: "id" in message and "method" not in message) for _ in range(BURST)]
        sender.join()
        seconds = time.perf_counter() - start
        cancelled = sum(answer.get("error", {}).get("code") == CANCELLED for answer in answers)
        return Aftermath(BURST, len(answers), cancelled, seconds, _load_of(client.process.pid))


def _fire(client: Client, wish: dict[str, Any]) -> None:
    for _ in range(BURST):
        client.notify("$/cancelRequest", {"id": client.ask("textDocument/inlineCompletion", wish)})


def _load_of(pid: int) -> float:
    process = psutil.Process(pid)
    time.sleep(IDLE)  # what runs still may end
    return float(process.cpu_percent(IDLE)) / 100


def _text() -> str:
    """Code that every Python has, up to the middle of a function."""
    lines = Path(argparse.__file__).read_text(encoding="utf-8").splitlines()
    return "\n".join([*lines[:LINES], "    def describe(self, everything):", "        "])


def _wish(text: str) -> dict[str, Any]:
    lines = text.split("\n")
    position = {"line": len(lines) - 1, "character": len(lines[-1])}
    return {"textDocument": {"uri": URI}, "position": position, "context": {"triggerKind": 1}}


async def _until(met: Callable[[], bool]) -> None:
    while not met():
        await asyncio.sleep(TICK)


def report(model: str, count: int) -> dict[str, Any]:
    """Raises ModelError, ServerEnded."""
    loaded = load(model, "cpu")
    with Bar("requests") as bar:
        found = asyncio.run(trials(loaded, count, _text(), bar))
    return {
        "model": model,
        "stopped_ms": {kind: _spread([one for one in found if one.kind == kind]) for kind in ("prefill", "verify")},
        "burst": asdict(burst(model)),
        "machine": machine_line(loaded.model),
    }


def _spread(found: Sequence[Trial]) -> dict[str, float | int]:
    times = sorted(1e3 * one.stopped for one in found if one.stopped is not None)
    if len(times) < 2:
        return {"count": len(times)}
    p99 = statistics.quantiles(times, n=100, method="inclusive")[98]
    return {"count": len(times), "p50": round(statistics.median(times), 2), "p99": round(p99, 2), "most": times[-1]}


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for kind, of in result["stopped_ms"].items():
        spread = (f"{of[key]:.1f}" if key in of else "-" for key in ("p50", "p99", "most"))
        yield {"verify": "decoding"}.get(kind, kind), str(of["count"]), *spread


def said(result: Mapping[str, Any]) -> str:
    """What the burst left behind."""
    after = result["burst"]
    return (
        f"{result['model']}: of {after['sent']:,} requests fired and cancelled in a burst {after['answered']:,} were "
        f"answered, {after['cancelled']:,} as cancelled; a second later the process used {after['cpu_after']:.0%} of a "
        "core."
    )


def show(result: Mapping[str, Any]) -> None:
    title = f"{result['model']}: cancelled 0 to {1e3 * LATEST:.0f} ms after the first pass began"
    print_table(title, COLUMNS, rows(result), (said(result), result["machine"]))


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "tiny",
    count: Annotated[int, typer.Option(min=2, help="How many delays, for cold and for warm prompts each.")] = 41,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how soon a cancelled request stops the model."""
    deliver(partial(report, model, count), show, as_json, ModelError, ServerEnded)


if __name__ == "__main__":
    typer.run(main)
