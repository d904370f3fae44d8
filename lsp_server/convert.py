"""Between the protocol and code points: the only file that knows UTF-16 and UTF-8 columns."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ghostdraft.completion.types import Completion
from ghostdraft.lsp_server.documents import Document, Point, well_formed
from ghostdraft.lsp_server.protocol import ContentChange, InlineCompletion, Position

ACCEPTED = "ghostdraft.accepted"

DEFAULT_ENCODING = "utf-16"
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}  # name, bytes per unit


def choose_encoding(offered: object) -> str:
    """The first that the client offers and we know."""
    known = [name for name in offered if name in _CODECS] if isinstance(offered, list) else []
    return known[0] if known else DEFAULT_ENCODING


def column_of(line: str, units: int, encoding: str) -> int:
    """The column in code points; past the line's end it is the end, inside a character it is that character."""
    codec, width = _CODECS[encoding]
    units = max(units, 0)
    return len(line[:units].encode(codec)[: units * width].decode(codec, "ignore"))


def units_of(line: str, column: int, encoding: str) -> int:
    """The column in the client's units."""
    codec, width = _CODECS[encoding]
    return len(line[:column].encode(codec)) // width


def point(document: Document, position: Position, encoding: str) -> Point:
    """A client's position as a place inside the document; past its last line it is the document's end."""
    if position.line >= document.line_count:
        last = document.line_count - 1
        return Point(last, len(document.line(last)))
    line = max(position.line, 0)
    return Point(line, column_of(document.line(line), position.character, encoding))


def change(document: Document, wanted: ContentChange, encoding: str) -> None:
    """Carries out one change of `textDocument/didChange`."""
    if wanted.range is None:
        document.replace(wanted.text)
        return
    start, end = point(document, wanted.range.start, encoding), point(document, wanted.range.end, encoding)
    document.edit(min(start, end), max(start, end), wanted.text)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a suggestion goes: `cursor` in code points of `text`, which is the document's with `before`, the item
    that the client's own list offers, in place of the columns [start, end) of the cursor's line.
    """

    text: str
    cursor: int
    before: str
    line_number: int
    line: str  # as it stands in the document
    start: int
    end: int


def place(document: Document, wanted: InlineCompletion, encoding: str) -> Place:
    cursor = point(document, wanted.position, encoding)
    line = document.line(cursor.line)
    selected = wanted.context.selected_completion_info
    if selected is not None:
        start, end = point(document, selected.range.start, encoding), point(document, selected.range.end, encoding)
        if start.line == cursor.line == end.line and start <= end:
            return _with_selected(document, start, end, well_formed(selected.text))
    return Place(document.text, document.offset(cursor), "", cursor.line, line, cursor.column, cursor.column)


def _with_selected(document: Document, start: Point, end: Point, selected: str) -> Place:
    first, last = document.offset(start), document.offset(end)
    text = document.text[:first] + selected + document.text[last:]
    line = document.line(start.line)
    return Place(text, first + len(selected), selected, start.line, line, start.column, end.column)


def item(completion: Completion, place: Place, encoding: str, item_id: str) -> dict[str, Any]:
    """An inline completion item: its range is explicit and on the cursor's line."""
    end = place.end + completion.end - completion.start
    return {
        "insertText": place.before + completion.text,
        "range": {
            "start": {"line": place.line_number, "character": units_of(place.line, place.start, encoding)},
            "end": {"line": place.line_number, "character": units_of(place.line, end, encoding)},
        },
        "command": {"title": "Accepted", "command": ACCEPTED, "arguments": [item_id]},
    }


@lru_cache(maxsize=1024)  # each key asks it of every open document
def path_of(uri: str) -> Path | None:
    """The file that a URI names, if it is one on this machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # of a host that begins with a bracket
        return None
    if parts.scheme != "file":
        return None
    path = unquote(parts.path)
    return Path(path.lstrip("/") if os.name == "nt" else path)
