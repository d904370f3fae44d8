"""How benches show what they do and found, and end: a bar on standard error, the machine's line, a table."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from types import TracebackType
from typing import Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ghostdraft.models.cost_file import processor

T = TypeVar("T")

LEAST_WIDTH = 110  # columns of a table, also where the terminal has fewer


class Bar:
    """Counts done of total, and what it is at; shown in a terminal only."""

    def __init__(self, title: str) -> None:
        console = Console(stderr=True)
        columns = (
            TextColumn(title),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def show(self, done: int, total: int, at: str = "") -> None:
        self._progress.update(self._task, completed=done, total=total, description=at)


def machine_line(model: Any) -> str:
    """Processor, cores, system, how busy it is, versions; and of the engine its instruction set and threads."""
    engine = [
        f"{getattr(model, name)} {word}".strip()
        for name, word in (("variant", ""), ("threads", "threads"))
        if hasattr(model, name)
    ]
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {processor()}"
    busy = [f"load {os.getloadavg()[0]:.1f}"] if hasattr(os, "getloadavg") else []
    return ", ".join(
        [system, *busy, *engine, f"ghostdraft {version('ghostdraft')}, Python {platform.python_version()}"]
    )


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str]) -> None:
    console = Console(highlight=False, markup=False)
    console.width = max(console.width, LEAST_WIDTH)
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for note in notes:
        console.print(note, soft_wrap=True)


def deliver(measure: Callable[[], T], show: Callable[[T], None], as_json: bool, *failures: type[Exception]) -> None:
    """What was measured, as JSON or as `show` shows it. One of `failures` is told, and ends the command with 2."""
    try:
        found = measure()
    except failures as failure:
        typer.echo(str(failure), err=True)
        raise typer.Exit(2) from failure
    put(found, show, as_json)


def put(found: T, show: Callable[[T], None], as_json: bool) -> None:
    """As JSON, or as `show` shows it."""
    typer.echo(json.dumps(found, indent=1)) if as_json else show(found)
