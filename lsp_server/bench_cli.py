"""`ghostdraft bench`: what decoding costs here, and how soon ghost text comes. A thin face over benchmarks."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ghostdraft import drafting, models
from ghostdraft.drafting import DrafterName
from ghostdraft.lsp_server.telling import BadInput, told

if TYPE_CHECKING:
    from ghostdraft.benchmarks.holes import Cursor
    from ghostdraft.drafting.types import Drafter
    from ghostdraft.models.load import Loaded

Rows = list[dict[str, Any]]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure on this machine, side by side."""


@app.command()
def decode(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = models.DEFAULT,
    drafter: Annotated[str, typer.Option(help="A drafter's name, or all.")] = "all",
    cursors: Annotated[int, typer.Option(min=1, help="How many holes, from the start of the list.")] = 40,
    tokens: Annotated[int, typer.Option(min=1, max=64, help="Most tokens at a hole.")] = 64,
    files: Annotated[list[Path] | None, typer.Option(help="Holes in this file instead; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hold drafted decoding against one-token decoding, at places where the rest of a block is cut out.

    The packages that these places are in, some 75 MB, are fetched once; with --files, nothing is.
    """
    with told():
        from ghostdraft.benchmarks import decode_table, report

        names, loaded = _names(drafter), _measured(model)
        drafters = _drafters(names, loaded)
        places, digest = _cursors(files, cursors)
        rows = decode_table.rows(model, loaded, drafters, places, digest, tokens)
        report.put(rows, decode_table.show, as_json)


@app.command()
def replay(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = models.DEFAULT,
    drafter: Annotated[str, typer.Option(help="A drafter's name, or all.")] = drafting.DEFAULT.value,
    cursors: Annotated[int, typer.Option(min=1, help="How many holes, from the start of the list.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the pauses between keys.")] = 1,
    files: Annotated[list[Path] | None, typer.Option(help="Holes in this file instead; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the times into this PNG file.")] = None,
) -> None:
    """Type into the server key by key, in real time, and see how soon ghost text comes in the pauses."""
    with told():
        from ghostdraft.benchmarks import replay_plot, replay_table, report

        drafters = _names(drafter)
        if plot is not None and find_spec("matplotlib") is None:
            raise BadInput("The picture needs matplotlib: pip install matplotlib, or leave --plot out.")
        _measured(model)  # else each of the servers would do it in a pause
        rows = _replayed(model, drafters, *_cursors(files, cursors), seed)
        report.put(rows, replay_table.show, as_json)
        if plot is not None:
            replay_plot.draw(rows, plot)


def _replayed(model: str, drafters: list[str], places: list[Cursor], digest: str, seed: int) -> Rows:
    from ghostdraft.benchmarks import replay_table
    from ghostdraft.benchmarks.lsp_client import ServerEnded

    scripts = replay_table.scripts(places, seed)
    minutes = replay_table.typing_minutes(scripts, len(drafters))
    typer.echo(f"The keys take {minutes:.1f} minutes; waiting for the model comes on top.", err=True)
    contenders = [replay_table.Contender(name, name) for name in drafters]
    try:
        return replay_table.rows(model, contenders, places, scripts, {"seed": seed, "holes_sha256": digest})
    except ServerEnded as error:
        raise BadInput(str(error)) from error


def _measured(model: str) -> Loaded:
    """A model whose passes' costs are known, as in use after the first long rest. Raises ModelError, OSError."""
    from ghostdraft.drafting.measuring import measure_once
    from ghostdraft.models.load import load

    loaded = load(model)
    measure_once(loaded.model, loaded.costs)
    return loaded


def _names(drafter: str) -> list[str]:
    if drafter not in ("all", *DrafterName):
        raise BadInput(f"There is no drafter {drafter}. Give one of: all, {', '.join(DrafterName)}.")
    return [name.value for name in DrafterName if drafter in ("all", name)]


def _drafters(names: list[str], target: Loaded) -> list[Drafter]:
    """One-token decoding first. Of several names, those that the target has no draft for are told and left out."""
    from ghostdraft.drafting.making import make
    from ghostdraft.models.types import ModelError

    made = [make(DrafterName.NONE, target)]
    for name in names:
        try:
            if name != DrafterName.NONE:
                made.append(make(name, target))
        except ModelError as error:
            if len(names) == 1:
                raise
            typer.echo(f"Left out: {name}. {error}", err=True)
    return made


def _cursors(files: list[Path] | None, count: int) -> tuple[list[Cursor], str]:
    """The cursors and their hash."""
    from ghostdraft.benchmarks import decode_table, own_files

    if not files:
        return decode_table.listed_cursors(count)
    try:
        found = own_files.cursors(files, count)
    except own_files.NoHoles as error:
        raise BadInput(str(error)) from error
    return found, own_files.digest(found)
