"""The commands. Each is one call into a module of its own, imported when it is wanted.

Exit status: 0 done; 1 `doctor` found something to mend, a served client ended without `shutdown`, or nobody reads the
output; 2 bad input, told in a sentence with its mend, or output that cannot be written.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ghostdraft import models
from ghostdraft.drafting import DrafterName
from ghostdraft.lsp_server import __version__, bench_cli, models_cli
from ghostdraft.lsp_server.telling import told

app = typer.Typer(
    name="ghostdraft",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(models_cli.app, name="models")
app.add_typer(bench_cli.app, name="bench")


class LogLevel(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ghostdraft {__version__}")
        raise typer.Exit


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def ghostdraft(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Ghost text from a code model on your own machine."""


@app.command()
def serve(
    _stdio: Annotated[bool, typer.Option("--stdio", help="Speak on standard input and output (the default).")] = True,
    log_level: Annotated[LogLevel, typer.Option(help="What is logged on standard error.")] = LogLevel.WARNING,
) -> None:
    """Serve an editor over the Language Server Protocol."""
    from ghostdraft.lsp_server.serving import serve_stdio

    serve_stdio(log_level.value)


@app.command()
def complete(
    place: Annotated[str, typer.Argument(metavar="PATH:LINE:COLUMN", help="The cursor; both count from 1.")],
    as_json: Json = False,
    model: Annotated[str | None, typer.Option(help="A name from `models list`.")] = None,
    drafter: Annotated[DrafterName | None, typer.Option(help="Who proposes tokens.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, max=1024, help="Most tokens to write.")] = None,
    pull: Annotated[bool, typer.Option("--pull", help="Pull the model where it is missing, without asking.")] = False,
) -> None:
    """Show the ghost text at a cursor in a file."""
    with told():
        from ghostdraft.lsp_server.complete import Wish
        from ghostdraft.lsp_server.complete import complete as run

        run(Wish(place, model, drafter.value if drafter else None, max_tokens, as_json, pull))


class TrainedKind(StrEnum):
    """The drafters that are trained."""

    DRAFT_MODEL = "draft-model"
    EAGLE = "eagle"
    MEDUSA = "medusa"


@app.command()
def train_draft(
    folder: Annotated[Path, typer.Argument(help="Where your code is; what it ignores or hides is not read.")] = Path(),
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = models.DEFAULT,
    kind: Annotated[
        TrainedKind,
        typer.Option(
            help="draft-model: a small model of its own; eagle: one that sees the model's states, too; "
            "medusa: heads that guess several tokens at once."
        ),
    ] = TrainedKind.DRAFT_MODEL,
    minutes: Annotated[float, typer.Option(min=0.01, help="How long it may take, all in all.")] = 15,
    seed: Annotated[int, typer.Option(min=0, help="The same one draws the same parts of your code.")] = 1,
    as_json: Json = False,
) -> None:
    """Train a drafter on your own code, so that it guesses more of what the model writes.

    The model reads a part of the code and the drafter learns what it said.
    Then it is asked about files that were held out, and is installed only
    where it guesses more than before and pays on this machine.

    A drafter makes the model faster or slower; the text stays the same.
    Nothing leaves this machine. Ctrl-C keeps what was learned so far, and the
    same command goes on from there. It needs PyTorch (the extra "train").
    """
    with told("interrupted. What was learned is kept: the same command goes on from there."):
        from ghostdraft.lsp_server.train_draft import Wish, train
        from ghostdraft.models.draft_file import DraftKind

        train(Wish(folder, model, DraftKind(kind), minutes, seed, as_json))


@app.command()
def doctor(
    as_json: Json = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure anew what the model's passes cost.")] = False,
) -> None:
    """Tell what this machine is, what is missing, and the command that mends it."""
    with told():
        from ghostdraft.lsp_server.doctor import doctor as run

        healthy = run(as_json, measure)
    if not healthy:
        raise typer.Exit(1)
