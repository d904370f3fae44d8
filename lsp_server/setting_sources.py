"""Where settings are read from: TOML files and what a client sends. Nothing is decided here; see `settings`.

A source is never trusted to be well formed: what is not taken becomes a sentence, and the rest of it is still used.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ghostdraft.lsp_server.setting_kinds import BadSetting, canonical, checked, in_words

CONFIG_VARIABLE = "GHOSTDRAFT_CONFIG"
WORKSPACE_FILE = ".ghostdraft.toml"
LARGEST_FILE = 64 * 1024  # bytes

_QUOTED_KEY = re.compile(r"\(['\"].*\)|(?<= key )['\"].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says: dotted key to checked value. `folder`: for documents under it only."""

    origin: str
    values: Mapping[str, Any]
    folder: PurePath | None = None
    workspace: bool = False  # may only tighten

    def covers(self, path: PurePath | None) -> bool:
        return self.folder is None or (path is not None and path.is_relative_to(self.folder))


@dataclass(frozen=True, slots=True)
class Read:
    """The layers of one source, and a sentence for each value that was not taken."""

    layers: tuple[Layer, ...] = ()
    problems: tuple[str, ...] = ()


def config_path() -> Path:
    """`config.toml` in the user's configuration folder, or where $GHOSTDRAFT_CONFIG says."""
    if override := os.environ.get(CONFIG_VARIABLE):
        return Path(override)
    from platformdirs import user_config_path

    return user_config_path("ghostdraft", appauthor=False) / "config.toml"


def read_user_file() -> Read:
    path = config_path()
    return _read_file(path, lambda raw: read_user(raw, str(path)))


def read_workspace_file(root: Path) -> Read:
    """`.ghostdraft.toml` at a workspace's root, if it is there."""
    path = root / WORKSPACE_FILE
    return _read_file(path, lambda raw: _layer(raw, str(path), root, workspace=True))


def read_user(raw: object, origin: str) -> Read:
    """What the user says, in a file or through the client: `[folders."/path"]` holds for the documents there.

    A client gives what it found in files of the workspace under `workspace`; that may only tighten.
    """
    if raw is None:
        return Read()
    if not isinstance(raw, Mapping):
        return Read(problems=(f"{origin}: the settings must be a table, not {in_words(raw)}.",))
    own = {key: value for key, value in raw.items() if key not in ("folders", "workspace")}
    workspace = _layer(raw.get("workspace", {}), f"{origin}, workspace", None, workspace=True)
    return _joined([_layer(own, origin), *_folders(raw.get("folders", {}), origin), workspace])


def _folders(raw: object, origin: str) -> Iterator[Read]:
    if not isinstance(raw, Mapping):
        yield Read(problems=(f"{origin}: `folders` must be a table, not {in_words(raw)}.",))
        return
    for name, values in raw.items():
        folder = Path(str(name)).expanduser()
        yield _layer(values, f"{origin}, folder {folder}", folder)


def _layer(raw: object, origin: str, folder: PurePath | None = None, workspace: bool = False) -> Read:
    if not isinstance(raw, Mapping):
        return Read(problems=(f"{origin}: the settings must be a table, not {in_words(raw)}.",))
    values: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in _flat(raw):
        try:
            values[canonical(key)] = checked(key, value, tightening=workspace or folder is not None)
        except BadSetting as problem:
            problems.append(f"{origin}: {problem}")
    return Read((Layer(origin, values, folder, workspace),), tuple(problems))


def _flat(raw: Mapping[Any, object]) -> Iterator[tuple[str, object]]:
    for key, value in raw.items():
        if key == "languages" and isinstance(value, Mapping):
            for language, budget in value.items():
                yield from _flat_language(language, budget)
        else:
            yield str(key), value


def _flat_language(language: object, budget: object) -> Iterator[tuple[str, object]]:
    if isinstance(budget, Mapping):
        yield from ((f"languages.{language}.{key}", value) for key, value in budget.items())
    else:
        yield f"languages.{language}", budget


def _read_file(path: Path, read: Any) -> Read:
    try:
        text = _content(path)
        raw = {} if text is None else tomllib.loads(text)
    except OSError as error:
        return Read(problems=(f"{path} was not read: {error.strerror}.",))
    except (ValueError, RecursionError) as error:
        return Read(problems=(f"{path} was not read: {_why_no_toml(error)}.",))
    result: Read = read(raw)
    return result


def _why_no_toml(error: Exception) -> str:
    """Reason and place, without the file's own text: some of the parser's messages quote keys, as a tuple."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {error.start})"
    if not isinstance(error, tomllib.TOMLDecodeError):
        return "it is not valid TOML: a number is too long, or tables are nested too deeply"
    reason, at, place = str(error).rpartition(" (at ")
    return f"it is not valid TOML: {_QUOTED_KEY.sub('…', reason)}{at}{place}"


def _content(path: Path) -> str | None:
    """The text of a settings file; None where there is none. A pipe or a device is not opened."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
        raise OSError(0, f"it is not a plain file of at most {LARGEST_FILE // 1024} KB")
    return path.read_text(encoding="utf-8")


def _joined(reads: Iterable[Read]) -> Read:
    reads = list(reads)
    layers = tuple(layer for read in reads for layer in read.layers)
    return Read(layers, tuple(problem for read in reads for problem in read.problems))
