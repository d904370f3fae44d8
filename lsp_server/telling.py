"""What goes wrong on the command line: one sentence with its mend on standard error, and the exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

BAD_INPUT = 2
INTERRUPTED = 130


class BadInput(Exception):
    """Says what cannot be used, and how to mend it."""


@contextmanager
def told() -> Iterator[None]:
    """Errors become a sentence and an exit status."""
    from ghostdraft.models.types import ModelError

    try:
        yield
    except (BadInput, ModelError) as error:
        typer.echo(f"ghostdraft: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt:
        typer.echo("ghostdraft: interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
