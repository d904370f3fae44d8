"""How long the server takes from its start to its first answer, and until the model is ready. On a warm disk.

python -m ghostdraft.benchmarks.startup --model tiny
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import typer

from ghostdraft.benchmarks.lsp_client import Client, ServerEnded
from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table

COLUMNS = ("seconds from the start", "starts", "median", "least", "most")


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of the process."""

    initialized: float
    ready: float


def start(model: str) -> Start:
    """One server, started and ended. Raises ServerEnded."""
    begun = time.perf_counter()
    with Client(model) as client:
        client.initialize()
        initialized = time.perf_counter() - begun
        client.wait_until_ready()
        return Start(initialized, time.perf_counter() - begun)


def report(model: str, rounds: int) -> dict[str, Any]:
    """The first start only warms the disk's cache and does not count. Raises ServerEnded."""
    starts = list[Start]()
    with Bar("servers") as bar:
        for done in range(rounds + 1):
            bar.show(done, rounds + 1)
            starts.append(start(model))
    return {"model": model, "starts": [asdict(one) for one in starts[1:]], "machine": machine_line(None)}


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, key in (("`initialize` answered", "initialized"), ("model ready", "ready")):
        times = [one[key] for one in result["starts"]]
        spread = (statistics.median(times), min(times), max(times))
        yield name, str(len(times)), *(f"{seconds:.2f}" for seconds in spread)


def show(result: Mapping[str, Any]) -> None:
    print_table(result["model"], COLUMNS, rows(result), [result["machine"]])


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "tiny",
    rounds: Annotated[int, typer.Option(min=1, help="How many servers are started.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time the server's start."""
    deliver(partial(report, model, rounds), show, as_json, ServerEnded)


if __name__ == "__main__":
    typer.run(main)
