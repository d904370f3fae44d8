"""The results of the decoding bench as rows of JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from ghostdraft.benchmarks.corpus import Corpus
from ghostdraft.benchmarks.decode import Trial, by_language, measure, summarise
from ghostdraft.benchmarks.holes import Cursor, load_list
from ghostdraft.benchmarks.report import Bar, machine_line, print_table
from ghostdraft.completion.engine import Loaded
from ghostdraft.drafting.types import Drafter

COLUMNS = ("drafter", "tokens/s", "speedup", "quartiles by hole", "tokens/step", "acceptance", "identical")


def listed_cursors(count: int) -> tuple[list[Cursor], str]:
    """The first `count` holes of the list, fetched where they are missing, which is told, and the list's hash.

    Raises DownloadFailed, WeightsCorrupt, OutOfSpace, ModelError.
    """
    listed, corpus = load_list(), Corpus.open()
    holes = listed.holes[:count]
    packages = {hole.package for hole in holes}
    if missing := corpus.missing(packages):
        names = ", ".join(package.artefact for package in missing)
        typer.echo(f"Fetching the packages that the holes were cut from, once, into {corpus.folder}: {names}", err=True)
    with Bar("packages") as bar:
        corpus.fetch(packages, bar.show)
    return [corpus.cursor(hole) for hole in holes], listed.sha256


def rows(
    name: str, loaded: Loaded, drafters: Sequence[Drafter], cursors: Sequence[Cursor], digest: str, tokens: int
) -> list[dict[str, Any]]:
    """One row a drafter; the first drafter is one-token decoding. `name` is the model's, `digest` the holes'."""
    with Bar("holes") as bar:
        trials = measure(loaded, drafters, cursors, tokens, lambda done: bar.show(done, len(cursors)))
    about = {"model": name, "holes_sha256": digest, "machine": machine_line(loaded.model)}
    return [_row(drafter, of, trials[drafters[0].name]) | about for drafter, of in trials.items()]


def _row(drafter: str, trials: Sequence[Trial], baseline: Sequence[Trial]) -> dict[str, Any]:
    each = {language: summary.as_json() for language, summary in by_language(trials, baseline).items()}
    return {"drafter": drafter, **summarise(trials, baseline).as_json(), "languages": each}


def show(rows: Sequence[dict[str, Any]]) -> None:
    first = rows[0]
    title = f"{first['model']}: {first['cursors']} holes, {first['tokens']} tokens left standing"
    languages = [(f"{row['drafter']}, {name}", each) for row in rows[1:] for name, each in row["languages"].items()]
    lines = [cells(row["drafter"], row) for row in rows] + [cells(name, each) for name, each in languages]
    print_table(title, COLUMNS, lines, (f"holes: sha256 {first['holes_sha256']}", first["machine"]))


def cells(name: str, figures: dict[str, Any]) -> list[str]:
    low, high = figures["speedup_quartiles"]
    return [
        name,
        f"{figures['tokens_per_second']:.1f}",
        f"{figures['speedup']:.2f}",
        f"{low:.2f}, {figures['speedup_median']:.2f}, {high:.2f}",
        f"{figures['tokens_per_step']:.2f}",
        f"{figures['acceptance']:.0%}",
        "yes" if figures["identical"] else "NO",
    ]
