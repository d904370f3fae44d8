"""The command line. Each command is one call into a module of its own, imported when it is wanted: `serve` starts fast.

Exit status: 0 done; 1 the client ended without `shutdown`; 2 bad input, told in a sentence with its mend.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(
    name="ghostdraft",
    help="Ghost text from a code model on your own machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class LogLevel(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"


@app.command()
def serve(
    _stdio: Annotated[bool, typer.Option("--stdio", help="Speak on standard input and output (the default).")] = True,
    log_level: Annotated[LogLevel, typer.Option(help="What is logged on standard error.")] = LogLevel.WARNING,
) -> None:
    """Serve an editor over the Language Server Protocol."""
    from ghostdraft.lsp_server.serving import serve_stdio

    serve_stdio(log_level.value)


def main() -> None:
    app()
