"""What a key costs beside the model's passes, in a file of ordinary length and in a very long one.

    python -m ghostdraft.benchmarks.keystroke --model tiny

The server runs in this process. In the middle of the file a line is typed, each key as an edit and a request that asks
for one token, and answered before the next. Of the processor's time from the message to the answer the model's passes
are taken off, which run on one thread here; what is left is all that the server does: reading the message, the edit,
parsing, the prompt, the drafter, the answer.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, cast

import typer

from ghostdraft.benchmarks.local_server import LocalServer
from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.completion.engine import Engine
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.models.load import Loaded, load
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import LanguageModel, ModelError, Pass

LINES = (400, 16_000)
COLUMNS = ("lines", "MB", "keys", "ms a key, p50", "p90", "most")
URI = "file:///bench/long.py"
TYPED = "    result = compute(value, other) + something.known[index]"
FUNCTION = """\
def function_{0}(value, other, index):  # its header says in a few words what comes of it
    known = [entry for entry in other.entries_{0} if entry.name.startswith(value.name)]
    if index >= len(known) and not other.may_be_shorter_than_this(index, value.limit_{0}):
        raise IndexError(f"there is no entry {{index}} among these {{len(known)}} entries")
    return known[index].worked_out(value, other.scale * index + {0}, everything_else=None)

"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of processor time a key, but for the model's passes."""

    lines: int
    characters: int
    keys: int
    p50: float
    p90: float
    most: float


class TimedModel:
    """The model, and the seconds of processor time that its passes took."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, *arguments: Any) -> Pass:
        started = time.process_time()
        try:
            return self._model.forward(*arguments)
        finally:
            self.seconds += time.process_time() - started


class Bench:
    """A server on this event loop, and a document in it."""

    def __init__(self, loaded: Loaded, text: str) -> None:
        self._text = text
        self._model = TimedModel(loaded.model)
        engine = Engine(replace(loaded, model=cast(LanguageModel, self._model)), NgramDrafter(), Sampling.GREEDY)
        self._server = LocalServer(engine, max_tokens=1)

    def open(self) -> None:
        self._server.open(URI, self._text)

    async def key(self, line: int, column: int, letter: str) -> float:
        """Types it, and gives the seconds of processor time that were not the model's."""
        self._model.seconds, started = 0.0, time.process_time()
        place = {"line": line, "character": column}
        changes = [{"range": {"start": place, "end": place}, "text": letter}]
        self._server.notify(
            "textDocument/didChange", {"textDocument": {"uri": URI, "version": column}, "contentChanges": changes}
        )
        behind = {"line": line, "character": column + len(letter)}
        wish = {"textDocument": {"uri": URI}, "position": behind, "context": {"triggerKind": 1}}
        await self._server.answer(self._server.ask("textDocument/inlineCompletion", wish))
        return time.process_time() - started - self._model.seconds


async def typed(loaded: Loaded, lines: int) -> list[float]:
    """Seconds for each key but the first line break and the first letter, which meet everything cold."""
    bench = Bench(loaded, long_text(lines))
    bench.open()
    middle = lines // 2
    await bench.key(middle, 0, "\n")
    return [await bench.key(middle, column, letter) for column, letter in enumerate(TYPED)][1:]


def long_text(lines: int) -> str:
    """Code of so many lines, about 80 characters each."""
    return "".join(_numbered(lines))


def _numbered(lines: int) -> Iterator[str]:
    function = FUNCTION.splitlines(keepends=True)
    for line in range(lines):
        yield function[line % len(function)].format(line // len(function))


def cost(lines: int, seconds: Sequence[float]) -> Cost:
    times = sorted(1e3 * one for one in seconds)
    p90 = statistics.quantiles(times, n=10, method="inclusive")[8]
    return Cost(lines, len(long_text(lines)), len(times), statistics.median(times), p90, times[-1])


def report(model: str) -> dict[str, Any]:
    """Raises ModelError."""
    loaded, found = load(model, "cpu", threads=1), list[Cost]()
    with Bar("files") as bar:
        for done, lines in enumerate(LINES):
            bar.show(done, len(LINES), f"{lines:,} lines")
            found.append(cost(lines, asyncio.run(typed(loaded, lines))))
    return {"model": model, "files": [asdict(one) for one in found], "machine": machine_line(loaded.model)}


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for of in result["files"]:
        spread = (f"{of[key]:.1f}" for key in ("p50", "p90", "most"))
        yield f"{of['lines']:,}", f"{of['characters'] / 1e6:.2f}", str(of["keys"]), *spread


def show(result: Mapping[str, Any]) -> None:
    print_table(f"{result['model']}: a key, but for the model's passes", COLUMNS, rows(result), [result["machine"]])


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "tiny",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure what a key costs beside the model."""
    deliver(partial(report, model), show, as_json, ModelError)


if __name__ == "__main__":
    typer.run(main)
