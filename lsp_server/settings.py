"""The settings that hold for a document: frozen, typed, each with the place it came from.

Later places win: defaults, `config.toml` in the user's configuration folder, the client, the command line, then what
the user says for one folder. A workspace's own values come last and can only turn things off or tighten them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from ghostdraft.completion.budget import Budgets, LanguageBudget
from ghostdraft.completion.policy import Policy
from ghostdraft.completion.types import Trigger
from ghostdraft.lsp_server.setting_kinds import DEFAULT_LANGUAGE, LANGUAGE_KEYS, default_values, kind_of
from ghostdraft.lsp_server.setting_sources import Layer, Read, read_user, read_user_file, read_workspace_file

MOST_RESOLVED = 1024  # paths: each key asks for those of every open document


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it was set."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for a document, or for the server as a whole. `settings`: each key with its value and origin."""

    model: str
    drafter: str
    context: int  # tokens
    budgets: Budgets
    policy: Policy
    settings: Mapping[str, Setting]

    @property
    def off(self) -> bool:
        """Whether nothing is ever suggested, so that no model is needed."""
        every = (self.budgets.default, *self.budgets.languages.values())
        return all(budget.trigger is Trigger.OFF for budget in every)


class Settings:
    """What all places say by now. Each change returns the sentences about what of it is not taken."""

    def __init__(self, user: Read, command_line: Mapping[str, Any] | None = None) -> None:
        self._user = (Layer("default", default_values()), *user.layers)
        self._command_line = (Layer("command line", command_line or {}),)
        self._client: tuple[Layer, ...] = ()
        self._folders: dict[Path, tuple[Layer, ...]] = {}
        self._resolved = lru_cache(maxsize=MOST_RESOLVED)(self._resolve)

    def set_client(self, raw: object) -> tuple[str, ...]:
        """Settings from initializationOptions or didChangeConfiguration; bare, or under `ghostdraft`."""
        if isinstance(raw, Mapping) and "ghostdraft" in raw:
            raw = raw["ghostdraft"]
        read = read_user(raw, "client")
        self._client = read.layers
        self._resolved.cache_clear()
        return read.problems + self._loosening(read.layers)

    def add_folder(self, root: Path) -> tuple[str, ...]:
        """A folder of the workspace was opened."""
        read = read_workspace_file(root)
        self._folders[root] = read.layers
        self._resolved.cache_clear()
        return read.problems + self._loosening(read.layers)

    def remove_folder(self, root: Path) -> None:
        self._folders.pop(root, None)
        self._resolved.cache_clear()

    def options(self, path: PurePath | None = None) -> Options:
        """What holds for a document at `path`; None: for one without a path, and for the server."""
        return self._resolved(path)

    def _resolve(self, path: PurePath | None) -> Options:
        settings, _ = resolve(self._layers(), path)
        return _options(settings)

    def _layers(self) -> tuple[Layer, ...]:
        folders = (layer for layers in tuple(self._folders.values()) for layer in layers)
        return (*self._user, *self._client, *self._command_line, *folders)

    def _loosening(self, layers: Iterable[Layer]) -> tuple[str, ...]:
        """Sentences about workspace values that would loosen what the user says."""
        user = [layer for layer in self._layers() if not layer.workspace]
        restricting = [layer for layer in layers if layer.workspace]
        return tuple(problem for layer in restricting for problem in resolve([*user, layer], layer.folder)[1])


def user_settings(command_line: Mapping[str, Any] | None = None) -> tuple[Settings, tuple[str, ...]]:
    """Defaults, the user's file and the command line; and the sentences about what of the file is not taken."""
    user = read_user_file()
    return Settings(user, command_line), user.problems


def resolve(layers: Iterable[Layer], path: PurePath | None) -> tuple[dict[str, Setting], tuple[str, ...]]:
    """Each key's setting for a document at `path`, and a sentence for each workspace value that would loosen."""
    covering = [layer for layer in layers if layer.covers(path)]
    settings: dict[str, Setting] = {}
    for layer in sorted((layer for layer in covering if not layer.workspace), key=_depth):
        settings.update((key, Setting(value, layer.origin)) for key, value in layer.values.items())
    problems = [problem for layer in covering if layer.workspace for problem in _tighten(settings, layer)]
    return settings, tuple(problems)


def _depth(layer: Layer) -> int:
    """Folders come after what holds everywhere, and inner ones after outer ones."""
    return 0 if layer.folder is None else len(layer.folder.parts)


def _tighten(settings: dict[str, Setting], layer: Layer) -> Iterator[str]:
    for key, value in layer.values.items():
        before = _setting(settings, key).value
        for reached in _reached(settings, key):
            _tighten_one(settings, reached, Setting(value, layer.origin))
        if value != before and _setting(settings, key).value == before:
            yield f"{layer.origin}: `{key}` is ignored: a workspace can only tighten it, and it is {before} now."


def _tighten_one(settings: dict[str, Setting], key: str, wish: Setting) -> None:
    tighten = kind_of(key).tighten
    before = _setting(settings, key).value
    if tighten is not None and (tightened := tighten(before, wish.value)) != before:
        settings[key] = Setting(tightened, wish.origin)


def _reached(settings: Mapping[str, Setting], key: str) -> list[str]:
    """The keys that a workspace's value for `key` binds: its own; that of every language if it is the default's."""
    start, _, last = key.rpartition(".")
    if start != f"languages.{DEFAULT_LANGUAGE}":
        return [key]
    return [other for other in settings if other.startswith("languages.") and other.endswith(f".{last}")]


def _setting(settings: Mapping[str, Setting], key: str) -> Setting:
    """A key's setting; a language without its own has the default's."""
    return settings.get(key) or settings[f"languages.{DEFAULT_LANGUAGE}.{key.rpartition('.')[2]}"]


def _options(settings: dict[str, Setting]) -> Options:
    languages = {language: _budget(settings, language) for language in _languages(settings)}
    default = languages.pop(DEFAULT_LANGUAGE)
    off = frozenset(name for name, budget in languages.items() if budget.trigger is Trigger.OFF)
    policy = Policy(excluded=settings["exclude"].value, languages_off=off)
    budgets = Budgets(default, languages)
    model, drafter, context = (settings[key].value for key in ("model", "drafter", "context"))
    return Options(model, drafter, context, budgets, policy, settings)


def _languages(settings: Mapping[str, Setting]) -> list[str]:
    keys = (key for key in settings if key.startswith("languages."))
    return list(dict.fromkeys(key.removeprefix("languages.").rpartition(".")[0] for key in keys))


def _budget(settings: Mapping[str, Setting], language: str) -> LanguageBudget:
    return LanguageBudget(**{key: _setting(settings, f"languages.{language}.{key}").value for key in LANGUAGE_KEYS})
