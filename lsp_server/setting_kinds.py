"""What each setting may be: how a raw value is checked, and how a workspace's value tightens the user's.

model, drafter                       text
context                              tokens that the model sees
max_tokens                           the same as languages.default.max_tokens
exclude                              globs of paths without suggestions
languages.NAME.budget_ms, .max_tokens, .trigger   NAME is an LSP languageId or "default"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ghostdraft import drafting, models
from ghostdraft.completion.budget import LanguageBudget
from ghostdraft.completion.context import DEFAULT_CONTEXT
from ghostdraft.completion.policy import Policy
from ghostdraft.completion.types import Snapshot, Trigger

DEFAULT_LANGUAGE = "default"
LANGUAGE_KEYS = ("budget_ms", "max_tokens", "trigger")

_ALIASES = {"max_tokens": f"languages.{DEFAULT_LANGUAGE}.max_tokens"}
_STRICTNESS = (Trigger.AUTO, Trigger.INVOKED, Trigger.OFF)
_MOST_GLOBS = 200
_MOST_WILDCARDS = 6  # each one more makes matching slower by the length of the path
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True)
class Kind:
    """`wanted` completes "must be". `take` makes the typed value of a raw one, or None of a bad one, which is told
    as `seen` says.

    `tighten(old, new)` is what holds where a workspace says `new`; None: not a workspace's or folder's to say.
    """

    wanted: str
    take: Callable[[object], Any]
    tighten: Callable[[Any, Any], Any] | None = None
    seen: Callable[[object], str] | None = None


class BadSetting(Exception):
    """A value that is not taken; a sentence that says why."""


def default_values() -> dict[str, Any]:
    budget = LanguageBudget()
    languages = {f"languages.{DEFAULT_LANGUAGE}.{key}": getattr(budget, key) for key in LANGUAGE_KEYS}
    names = {"model": models.DEFAULT, "drafter": drafting.DEFAULT.value}
    return {**names, "context": DEFAULT_CONTEXT, "exclude": (), **languages}


def canonical(key: str) -> str:
    return _ALIASES.get(key, key)


def kind_of(key: str) -> Kind:
    """Raises BadSetting where there is no such setting."""
    parts = canonical(key).split(".")
    if parts[0] == "languages" and "" in parts:
        raise BadSetting("`languages` has a table without a language's name; give it one, or take it out.")
    language = parts[0] == "languages" and len(parts) >= 3
    kind = _LANGUAGE_KINDS.get(parts[-1]) if language else _KINDS.get(key)
    if kind is None:
        raise BadSetting(f"there is no setting `{key[:80]}`.")
    return kind


def checked(key: str, raw: object, tightening: bool) -> Any:
    """The typed value. `tightening`: said by a workspace or for a folder. Raises BadSetting."""
    if _holds_tables(key) and not isinstance(raw, Mapping):
        raise BadSetting(f"`{key[:80]}` must be a table, not {in_words(raw)}.")
    kind = kind_of(key)
    if tightening and kind.tighten is None:
        raise BadSetting(f"`{key}` is ignored: only you can set it, and for every folder at once.")
    value = kind.take(raw)
    if value is None:
        raise BadSetting(
            f"`{key}` must be {kind.wanted}, not {(kind.seen or in_words)(raw)}; the value before it stays."
        )
    return value


def _holds_tables(key: str) -> bool:
    """`languages` and `languages.NAME`."""
    first, *others = key.split(".")
    return first == "languages" and len(others) < 2


def in_words(raw: object) -> str:
    """A raw value for a message: itself where it is short, else what it is."""
    match raw:
        case str() if len(raw) <= 40 and raw.isprintable():
            return f'"{raw}"'
        case bool() | int() | float():
            return str(raw).lower()[:40]
        case None:
            return "null"
    names: Mapping[type, str] = {str: "a long text", list: "a list", tuple: "a list"}
    return names.get(type(raw), "a table")


def _text(raw: object) -> str | None:
    return raw if isinstance(raw, str) and 0 < len(raw) <= _LONGEST_TEXT else None


def _globs(raw: object) -> tuple[str, ...] | None:
    if not isinstance(raw, list | tuple) or len(raw) > _MOST_GLOBS or not all(map(_is_glob, raw)):
        return None
    return tuple(raw)


def _is_glob(raw: object) -> bool:
    if not isinstance(raw, str) or not 0 < len(raw) <= _LONGEST_TEXT or raw.count("*") > _MOST_WILDCARDS:
        return False
    try:
        Policy(excluded=(raw,)).refusal(Snapshot("file:///any", 0, "", "", 0))
    except re.error:
        return False
    return True


def _globs_seen(raw: object) -> str:
    """What of a list that is not taken is wrong."""
    if not isinstance(raw, list | tuple):
        return in_words(raw)
    if len(raw) > _MOST_GLOBS:
        return f"a list of {len(raw)}"
    return f"a list with {_glob_seen(next(glob for glob in raw if not _is_glob(glob)))}"


def _glob_seen(raw: object) -> str:
    if not isinstance(raw, str):
        return in_words(raw)
    if len(raw) > _LONGEST_TEXT:
        return f"a glob of {len(raw)} characters"
    if raw.count("*") > _MOST_WILDCARDS:
        return f"a glob of {raw.count('*')} stars"
    return f"{in_words(raw)}, which is no glob"


def _stricter(old: Trigger, new: Trigger) -> Trigger:
    return max(old, new, key=_STRICTNESS.index)


def _choice(names: Iterable[str], make: Callable[[str], Any] = str) -> Kind:
    known = tuple(names)

    def take(raw: object) -> Any:
        return make(raw) if isinstance(raw, str) and raw in known else None

    return Kind("one of " + ", ".join(f'"{name}"' for name in known), take)


def _count(most: int, least: int = 1, tighten: Callable[[int, int], int] | None = None) -> Kind:
    def take(raw: object) -> int | None:
        return raw if isinstance(raw, int) and not isinstance(raw, bool) and least <= raw <= most else None

    return Kind(f"a whole number from {least} to {most}", take, tighten)


_TRIGGER = _choice(Trigger, Trigger)

_KINDS = {
    "model": Kind("the name of a model", _text),
    "drafter": _choice(drafting.DrafterName),
    "context": _count(32_768, least=512),
    "exclude": Kind(
        f"a list of at most {_MOST_GLOBS} globs, each with at most {_MOST_WILDCARDS} stars",
        _globs,
        lambda old, new: (*old, *new),
        _globs_seen,
    ),
}
_LANGUAGE_KINDS = {
    "budget_ms": _count(600_000, tighten=min),
    "max_tokens": _count(1024, tighten=min),
    "trigger": Kind(_TRIGGER.wanted, _TRIGGER.take, _stricter),
}
