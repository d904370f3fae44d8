"""`ghostdraft bench`: what decoding costs here, with each drafter and without. A thin face over benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ghostdraft.lsp_server.telling import BadInput, told

if TYPE_CHECKING:
    from ghostdraft.benchmarks.holes import Cursor
    from ghostdraft.drafting.types import Drafter

app = typer.Typer(no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure on this machine, side by side."""


@app.command()
def decode(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "starter",
    drafter: Annotated[str, typer.Option(help="A drafter's name, or all.")] = "all",
    cursors: Annotated[int, typer.Option(min=1, help="How many holes, from the start of the list.")] = 40,
    tokens: Annotated[int, typer.Option(min=1, max=64, help="Most tokens at a hole.")] = 64,
    files: Annotated[list[Path] | None, typer.Option(help="Holes in this file instead; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hold drafted decoding against one-token decoding, at places where the rest of a block is cut out.

    The packages that these places are in are fetched once; with --files, nothing is.
    """
    with told():
        from ghostdraft.benchmarks import decode_table
        from ghostdraft.models.load import load

        drafters, (places, digest) = _drafters(drafter), _cursors(files, cursors)
        rows = decode_table.rows(model, load(model), drafters, places, digest, tokens)
        if as_json:
            typer.echo(json.dumps(rows, indent=1))
        else:
            decode_table.show(rows)


def _drafters(name: str) -> list[Drafter]:
    """One-token decoding first."""
    from ghostdraft.drafting import NAMES, make

    if name not in ("all", *NAMES):
        raise BadInput(f"There is no drafter {name}. Give one of: all, {', '.join(NAMES)}.")
    wanted = [one for one in NAMES if one == "none" or name in ("all", one)]
    return [drafter for drafter in map(make, wanted) if drafter is not None]


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
