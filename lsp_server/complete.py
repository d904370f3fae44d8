"""`ghostdraft complete PATH:LINE:COLUMN`: what would be shown at a cursor in a file. Lines and columns count from 1,
columns in code points."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import typer

from ghostdraft.completion.policy import PROBE
from ghostdraft.completion.syntax import language_of
from ghostdraft.completion.types import Budget, Completion, DecodeStats, StopReason
from ghostdraft.drafting import DrafterName
from ghostdraft.lsp_server import complete_view
from ghostdraft.lsp_server.complete_view import Cursor, Outcome
from ghostdraft.lsp_server.convert import path_of
from ghostdraft.lsp_server.documents import Document, Point
from ghostdraft.lsp_server.host import Engine, load_engine
from ghostdraft.lsp_server.setting_sources import WORKSPACE_FILE
from ghostdraft.lsp_server.settings import Options, user_settings
from ghostdraft.lsp_server.telling import BadInput, waiting
from ghostdraft.lsp_server.texts import Texts
from ghostdraft.models import plain_files
from ghostdraft.models.registry import MODELS
from ghostdraft.models.types import ModelNotFound


@dataclass(frozen=True, slots=True)
class Wish:
    """The command line. None: what the settings say."""

    place: str
    model: str | None = None
    drafter: str | None = None
    max_tokens: int | None = None
    as_json: bool = False
    pull: bool = False


def complete(wish: Wish) -> None:
    """Prints the completion. Raises BadInput, ModelError."""
    cursor = find_cursor(wish.place)
    options = _options(wish, cursor)
    budget = Budget(wish.max_tokens or options.budgets.of(cursor.document.language_id).max_tokens)
    refusal = options.policy.refusal(cursor.snapshot)
    completion = _completed(cursor, budget, options, wish) if refusal is None else _refused(cursor)
    outcome = Outcome(cursor, completion, options.model, options.drafter)
    if wish.as_json:
        typer.echo(complete_view.as_json(outcome))
    if refusal is not None:
        raise BadInput(refusal)
    if not wish.as_json:
        complete_view.show(outcome)


def _completed(cursor: Cursor, budget: Budget, options: Options, wish: Wish) -> Completion:
    engine = _load(options, wish, _texts(cursor, options))
    with waiting(f"{options.model} is writing"):
        return engine.complete(cursor.snapshot, budget, threading.Event())


def _refused(cursor: Cursor) -> Completion:
    at = cursor.snapshot.cursor
    return Completion("", at, at, StopReason.OFF, DecodeStats())


def find_cursor(place: str) -> Cursor:
    """The place in the file that PATH:LINE:COLUMN names. Raises BadInput."""
    path, line, column = _parse(place)
    text = _read(path)
    document = Document(path.resolve().as_uri(), language_of(str(path)), 0, text)
    if line > document.line_count:
        raise BadInput(f"{path} has {document.line_count} lines; there is no line {line}.")
    last = len(document.line(line - 1)) + 1
    if column > last:
        raise BadInput(f"Line {line} of {path} ends at column {last}; there is no column {column}.")
    return Cursor(document, Point(line - 1, column - 1))


def _parse(place: str) -> tuple[Path, int, int]:
    path, *numbers = place.rsplit(":", 2)
    if len(numbers) != 2 or not all(number.isascii() and number.isdigit() for number in numbers) or not path:
        raise BadInput(f"{place} is no place in a file. Give PATH:LINE:COLUMN, for example main.py:12:5.")
    line, column = map(int, numbers)
    if line < 1 or column < 1:
        raise BadInput("Lines and columns count from 1.")
    return Path(path), line, column


def _read(path: Path) -> str:
    try:
        plain_files.check(path)
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}. Give a text file.") from error
    if b"\0" in content[:PROBE]:
        raise BadInput(f"{path} is a binary file. Give a text file.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error


def _options(wish: Wish, cursor: Cursor) -> Options:
    chosen = {"model": wish.model, "drafter": wish.drafter}
    settings, problems = user_settings({key: value for key, value in chosen.items() if value is not None})
    path = path_of(cursor.document.uri)
    if (workspace := _workspace(path)) is not None:
        problems += settings.add_folder(workspace)
    for problem in problems:
        typer.echo(f"ghostdraft: {problem}", err=True)
    return settings.options(path)


def _workspace(path: Path | None) -> Path | None:
    """The nearest folder above the file that has settings of its own."""
    return next((folder for folder in (path.parents if path else ()) if os.path.exists(folder / WORKSPACE_FILE)), None)


def _texts(cursor: Cursor, options: Options) -> Texts:
    """What may be drafted from: the other files of the workspace, where the drafter is one that does."""
    texts, path = Texts(), path_of(cursor.document.uri)
    if options.drafter == DrafterName.CORPUS and path is not None:
        from ghostdraft.completion.workspace import Workspace, root_of

        with waiting("reading the workspace"):
            workspace = Workspace(texts.datastore(), lambda _: options.policy)
            deque(workspace.scan([root_of(path)]), maxlen=0)
            workspace.exclude([path])
    return texts


def _load(options: Options, wish: Wish, texts: Texts) -> Engine:
    try:
        with waiting(f"loading {options.model}"):
            return load_engine(texts, options.model, options.drafter, options.context)
    except ModelNotFound as error:
        if not (wish.pull or _agreed(options.model)):
            raise BadInput(f"{error}{', or add --pull' if options.model in MODELS else ''}") from error
    _pull(options.model)
    with waiting(f"loading {options.model}"):
        return load_engine(texts, options.model, options.drafter, options.context)


def _agreed(model: str) -> bool:
    """Whether the user, at a terminal, wants the model pulled now."""
    known = MODELS.get(model)
    if known is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    size = f"{known.file.size / 1e6:,.0f} MB, " if known.file else ""
    question = f"{model} ({size}{known.licence}) is not on this disk yet. Pull it now?"
    return typer.confirm(question, default=True, err=True)


def _pull(model: str) -> None:
    from ghostdraft.lsp_server.models_progress import ProgressBar
    from ghostdraft.models.acquire import pull
    from ghostdraft.models.store import Store

    with ProgressBar() as bar:
        pull(Store(), model, bar.watch)
