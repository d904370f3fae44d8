"""What goes wrong on the command line: one sentence with its mend on standard error, and the exit status. And that
something takes its time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation

import typer

BROKEN_OUTPUT = 1
BAD_INPUT = 2
INTERRUPTED = 130


class BadInput(Exception):
    """Says what cannot be used, and how to mend it."""


@contextmanager
def told(interrupted: str = "interrupted.") -> Iterator[None]:
    """Errors become a sentence and an exit status; who reads what is printed may go away without one."""
    from ghostdraft.models.types import ModelError

    try:
        yield
    except (BadInput, ModelError) as error:
        typer.echo(f"ghostdraft: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except BrokenPipeError as error:
        _give_output_up()
        raise typer.Exit(BROKEN_OUTPUT) from error
    except OSError as error:
        _give_output_up()
        place = error.filename or "The output cannot be written"
        typer.echo(f"ghostdraft: {place}: {error.strerror or error}.", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt:
        typer.echo(f"ghostdraft: {interrupted}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _give_output_up() -> None:
    """Python would try once more at its end to write what could not be written, and complain."""
    with suppress(UnsupportedOperation), open(os.devnull, "wb") as nowhere:  # a stream may have no descriptor
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner on standard error, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} ..."):
        yield
