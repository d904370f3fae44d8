"""What the server holds in memory, whether that stays, and that the server rests when its user does.

    python -m ghostdraft.benchmarks.memory --model tiny --completions 5000

A real server with a context of 2,048 tokens is typed into, and asked by hand behind each key. It is weighed at its
start, once the first prompt is read, and again and again while long documents come and go, so that all that it
remembers of them is full; then it is left alone, and once more after a burst of requests that were cancelled.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from typing import Annotated, Any

import numpy as np
import typer

from ghostdraft.benchmarks.lsp_client import ServerEnded
from ghostdraft.benchmarks.process import Held, cpu_seconds, held, most_resident
from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.benchmarks.typist import TYPED, Typist, document, serving

CONTEXT = 2048  # tokens
SHORT = 8  # most tokens of an answer: many are wanted
TEXTS = 8  # different ones; a server has seen all of them after so many documents
LONG = 131_072  # code points of a document before its cursor: more is never looked at
OPEN = 4  # documents at a time
IN_EACH = 25  # completions
WEIGHED = 200  # times, among all completions
BURST = 200  # requests
REST = 2.0  # seconds after the last key, from which on the server should do nothing
WATCHED = 5.0  # seconds
COLUMNS = ("MB", "resident", "mapped pages shared out", "of no file")


@dataclass(frozen=True, slots=True)
class Growth:
    """What was held after so many completions."""

    completions: int
    held: Held


def weigh(model: str, completions: int, bar: Bar) -> dict[str, Any]:
    """A server's memory at its stations, and its processor time at rest."""
    with serving(model, context=CONTEXT, max_tokens=SHORT) as (client, typist):
        held_at = {"started": held(typist.pid)}
        client.wait_until_ready()
        held_at["model loaded"] = held(typist.pid)
        typist.key(typist.open(document(0, CONTEXT)), "\n")
        held_at["first prompt read"] = held(typist.pid)
        growth = list(_days(typist, completions, bar))
        held_at[f"{completions:,} completions"] = growth[-1].held
        return {
            "held": {station: asdict(one) for station, one in held_at.items()},
            "most_resident": most_resident(typist.pid),
            "anonymous_per_1000": slope(growth[len(growth) // 2 :]),
            "cpu_seconds_at_rest": rests(typist),
        }


def _days(typist: Typist, completions: int, bar: Bar) -> Iterator[Growth]:
    """Documents come and go, at most `OPEN` of them at a time."""
    texts, opened, done = [document(number, CONTEXT, LONG) for number in range(TEXTS)], deque[str](), 0
    for text in cycle(texts):
        opened.append(typist.open(text))
        if len(opened) > OPEN:
            typist.close(opened.popleft())
        for letter in TYPED[:IN_EACH]:
            typist.key(opened[-1], letter)
            done += 1
            bar.show(done, completions, "completions")
            if done % max(1, completions // WEIGHED) == 0 or done == completions:
                yield Growth(done, held(typist.pid))
            if done == completions:
                return


def slope(growth: Sequence[Growth]) -> float | None:
    """Bytes of anonymous memory for each 1,000 completions, by least squares; None where that cannot be told."""
    weights = [one.held.anonymous for one in growth if one.held.anonymous is not None]
    if len(weights) < 2:
        return None
    return float(np.polyfit([one.completions / 1000 for one in growth], weights, 1)[0])


def rests(typist: Typist) -> dict[str, float]:
    """Seconds of processor time from `REST` after the last key on, by what was done before."""
    uri, found = typist.open(document(TEXTS, CONTEXT, LONG)), dict[str, float]()
    _wait_until_idle(typist.pid)
    found["prompt read ahead"] = _at_rest(typist.pid)
    for letter in TYPED:
        typist.key(uri, letter)
    found["keys with answers"] = _at_rest(typist.pid)
    typist.give_up(uri, BURST)
    found[f"{BURST} cancelled requests"] = _at_rest(typist.pid)
    return found


def _wait_until_idle(pid: int) -> None:
    while _work(pid, REST / 2) > 0:
        pass


def _at_rest(pid: int) -> float:
    time.sleep(REST)
    return _work(pid, WATCHED)


def _work(pid: int, seconds: float) -> float:
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return cpu_seconds(pid) - before


def report(model: str, completions: int) -> dict[str, Any]:
    """Raises ServerEnded."""
    with Bar("memory") as bar:
        found = weigh(model, completions, bar)
    return {"model": model, "completions": completions, **found, "machine": machine_line(None)}


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Megabytes; a dash where the system does not tell."""
    for station, of in result["held"].items():
        sizes = (of[kind] for kind in ("resident", "shared_out", "anonymous"))
        yield station, *("-" if size is None else f"{size / 1e6:.0f}" for size in sizes)


def notes(result: Mapping[str, Any]) -> Iterator[str]:
    model, grown = result["model"], result["anonymous_per_1000"]
    yield f"{model}: at most {result['most_resident'] / 1e6:.0f} MB were resident at any moment. {_in_words(grown)}"
    rest = ", ".join(f"{1e3 * seconds:.1f} ms after {name}" for name, seconds in result["cpu_seconds_at_rest"].items())
    yield f"{model}: processor time in {WATCHED:.0f} s, from {REST:.0f} s after the last key on: {rest}."


def _in_words(grown: float | None) -> str:
    if grown is None:
        return "This system does not tell which part of that is of no file, so growth is not told either."
    return f"Over the second half, what is of no file grew by {grown / 1e6:.2f} MB for each 1,000 completions."


def show(result: Mapping[str, Any]) -> None:
    title = f"{result['model']} at a context of {CONTEXT:,} tokens"
    print_table(title, COLUMNS, rows(result), [*notes(result), result["machine"]])


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "tiny",
    completions: Annotated[int, typer.Option(min=2, help="How many are asked for while memory is watched.")] = 400,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Weigh the server, and see that it rests."""
    deliver(partial(report, model, completions), show, as_json, ServerEnded)


if __name__ == "__main__":
    typer.run(main)
