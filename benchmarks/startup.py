"""How long the server takes from its start to its first answer, and until the model is ready. On a warm disk.

python -m ghostdraft.benchmarks.startup --model tiny
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ghostdraft.benchmarks.lsp_client import Client, ServerEnded
from ghostdraft.benchmarks.report import Bar, machine_line, print_table


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


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "tiny",
    rounds: Annotated[int, typer.Option(min=1, help="How many servers are started.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time the server's start; the first one only warms the disk's cache and does not count."""
    try:
        with Bar("servers") as bar:
            starts = []
            for done in range(rounds + 1):
                bar.show(done, rounds + 1)
                starts.append(start(model))
    except ServerEnded as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    _show(model, starts[1:], as_json)


def _show(model: str, starts: list[Start], as_json: bool) -> None:
    if as_json:
        report = {"model": model, "starts": [asdict(one) for one in starts], "machine": machine_line(None)}
        typer.echo(json.dumps(report, indent=1))
        return
    spans = (
        ("initialize answered", [one.initialized for one in starts]),
        ("model ready", [one.ready for one in starts]),
    )
    rows = [(name, f"{statistics.median(of):.2f}", f"{min(of):.2f}", f"{max(of):.2f}") for name, of in spans]
    columns = ("seconds from the start", "median", "least", "most")
    print_table(f"{model}: {len(starts)} starts", columns, rows, (machine_line(None),))


if __name__ == "__main__":
    typer.run(main)
