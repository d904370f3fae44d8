"""The commands. Each is one call into a module of its own, imported when it is wanted.

Exit status: 0 done; 1 `doctor` found something to mend, a served client ended without `shutdown`, or nobody reads the
output; 2 bad input, told in a sentence with its mend, or output that cannot be written.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

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
