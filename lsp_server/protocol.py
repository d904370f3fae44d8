"""The messages of LSP 3.18 that this server reads, as frozen dataclasses, and how they are read from JSON.

Names are the protocol's in snake case. Members that are not listed are ignored; one that is missing or of another type
raises InvalidParams, which names it and quotes nothing.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ghostdraft.lsp_server.jsonrpc import ErrorCode, RpcError

T = TypeVar("T")

INVOKED = 1


class InvalidParams(RpcError):
    def __init__(self, where: str, wanted: str) -> None:
        super().__init__(ErrorCode.INVALID_PARAMS, f"`{where}` must be {wanted}.")


@dataclass(frozen=True, slots=True)
class Position:
    line: int
    character: int  # in units of the position encoding


@dataclass(frozen=True, slots=True)
class Range:
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class TextDocument:
    uri: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class TextDocumentItem:
    uri: str
    language_id: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class DidOpen:
    text_document: TextDocumentItem


@dataclass(frozen=True, slots=True)
class ContentChange:
    text: str
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class DidChange:
    text_document: TextDocument
    content_changes: tuple[ContentChange, ...]


@dataclass(frozen=True, slots=True)
class DidClose:
    text_document: TextDocument


@dataclass(frozen=True, slots=True)
class DidMoveCursor:
    """Not of LSP: our editors' extensions tell it, others need not."""

    text_document: TextDocument
    position: Position


@dataclass(frozen=True, slots=True)
class SelectedCompletion:
    range: Range
    text: str


@dataclass(frozen=True, slots=True)
class InlineCompletionContext:
    trigger_kind: int
    selected_completion_info: SelectedCompletion | None = None


@dataclass(frozen=True, slots=True)
class InlineCompletion:
    text_document: TextDocument
    position: Position
    context: InlineCompletionContext


@dataclass(frozen=True, slots=True)
class WorkspaceFolder:
    uri: str
    name: str


@dataclass(frozen=True, slots=True)
class Initialize:
    capabilities: Mapping[str, Any]
    process_id: int | None = None
    root_uri: str | None = None
    workspace_folders: tuple[WorkspaceFolder, ...] | None = None
    initialization_options: Any = None

    @property
    def folders(self) -> tuple[WorkspaceFolder, ...]:
        if self.workspace_folders is not None or self.root_uri is None:
            return self.workspace_folders or ()
        return (WorkspaceFolder(self.root_uri, ""),)

    def capability(self, group: str, name: str) -> object:
        """What the client says of one capability, unchecked; None where it says nothing."""
        members = self.capabilities.get(group)
        return members.get(name) if isinstance(members, Mapping) else None


@dataclass(frozen=True, slots=True)
class FoldersEvent:
    added: tuple[WorkspaceFolder, ...]
    removed: tuple[WorkspaceFolder, ...]


@dataclass(frozen=True, slots=True)
class DidChangeFolders:
    event: FoldersEvent


@dataclass(frozen=True, slots=True)
class DidChangeConfiguration:
    settings: Any = None


@dataclass(frozen=True, slots=True)
class ExecuteCommand:
    command: str
    arguments: tuple[Any, ...] | None = None


def read(kind: type[T], raw: object, where: str = "params") -> T:
    """A `kind`, one of the dataclasses above, from what JSON gave. Raises InvalidParams."""
    if not isinstance(raw, Mapping):
        raise InvalidParams(where, "an object")
    members = {}
    described: type = kind
    for member, name, hint in _members(described):
        if name in raw:
            members[member.name] = _value(hint, raw[name], f"{where}.{name}")
        elif member.default is MISSING:
            raise InvalidParams(f"{where}.{name}", "given")
    return kind(**members)


def _value(hint: Any, raw: object, where: str) -> object:
    if type(raw) is hint:
        return raw
    if is_dataclass(hint) and isinstance(hint, type):
        return read(hint, raw, where)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return None if raw is None else _value(get_args(hint)[0], raw, where)
    if origin is tuple:
        return _items(get_args(hint)[0], raw, where)
    if hint is not Any and not _is_a(raw, origin or hint):
        raise InvalidParams(where, _WORDS[origin or hint])
    return raw


def _items(hint: Any, raw: object, where: str) -> tuple[object, ...]:
    if not isinstance(raw, list):
        raise InvalidParams(where, "an array")
    return tuple(_value(hint, item, f"{where}[{index}]") for index, item in enumerate(raw))


def _is_a(raw: object, kind: type) -> bool:
    return isinstance(raw, kind) and not (kind is int and isinstance(raw, bool))


_WORDS = {int: "a whole number", str: "a string", Mapping: "an object"}


@cache
def _members(kind: type) -> tuple[tuple[Field[Any], str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((member, _camel(member.name), hints[member.name]) for member in fields(kind))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
