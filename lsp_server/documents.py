"""The open documents: text, version, and the edits since the text was last handed out.

Everything here is in code points; what a client's columns mean is not known here (`convert.py` is). A line ends at
`\\n`, `\\r\\n` or `\\r` and nowhere else. The text is kept as a list of lines, so that an edit costs its own lines
and not the file's; while one types in a line, what stands before and behind it is kept whole, too.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ghostdraft.completion.types import Edit

MOST_LEFT = 1000  # documents that were closed
MAX_LOGGED_EDITS = 4096  # a longer chain costs more to replay than a fresh parse

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_END_OF_LINE = "\r\n"
_ENDS = re.compile("[\r\n]")


class UnknownDocument(Exception):
    """The client speaks of a document that it did not open."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A place in a document; both count from 0, `column` in code points."""

    line: int
    column: int


class Document:
    """One open document. Points given to it lie inside it, `column` at most at the line's end."""

    def __init__(self, uri: str, language_id: str, version: int, text: str) -> None:
        self.uri = uri
        self.language_id = language_id
        self.version = version
        self.cursor: int | None = None  # where the user was last seen, in code points
        self._text: str | None = well_formed(text)
        self._lines = split_lines(self._text)
        self._edited: int | None = None  # the line that the last edit left one
        self._typed_in: int | None = None  # the same, if the edit before was in it, too
        self._sides: tuple[str, str] | None = None  # the text before and behind the line that is typed in
        self._anchor = (0, 0)  # a line and the offset of its start
        self._log: list[Edit] = []
        self._log_start = 0  # how many edits came before the log's first
        self._handed_out = False  # whether the log starts at a text that was handed out

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join(self._lines if self._typed_in is None else self._around(self._typed_in))
        return self._text

    def _around(self, line: int) -> tuple[str, str, str]:
        if self._sides is None:
            self._sides = "".join(self._lines[:line]), "".join(self._lines[line + 1 :])
        return self._sides[0], self._lines[line], self._sides[1]

    @property
    def line_count(self) -> int:
        return len(self._lines)

    @property
    def mark(self) -> int:
        """How many edits made this text."""
        return self._log_start + len(self._log)

    def line(self, index: int) -> str:
        """The line without its end."""
        return self._lines[index].rstrip(_END_OF_LINE)

    def offset(self, point: Point) -> int:
        return self._line_start(point.line) + point.column

    def edit(self, start: Point, end: Point, text: str) -> None:
        """Replaces [start, end) by `text`."""
        text = well_formed(text)
        edit = Edit(self.offset(start), self.offset(end), text)
        self._remember(edit)
        self.cursor = edit.start + len(text)
        first = self._first_line_touched(start)
        self._line_start(first)  # the anchor stays before what changes
        head = "".join(self._lines[first : start.line]) + self._lines[start.line][: start.column]
        tail = self._lines[end.line][end.column :]
        lines = self._lines[first : end.line + 1] = self._split(head + text + tail, first, end.line, text)
        self._text = None
        self._note(first if first == end.line and len(lines) == 1 else None)

    def _note(self, edited: int | None) -> None:
        """The edit left this line one and touched no other; None: it did not."""
        self._typed_in = edited if edited == self._edited else None
        self._edited = edited
        if self._typed_in is None:
            self._sides = None

    def _split(self, block: str, first: int, last: int, inserted: str) -> list[str]:
        """The lines of a block that takes the place of the lines `first` to `last`."""
        if first == last and not _ENDS.search(inserted):
            return [block]
        lines = split_lines(block)
        if last + 1 < len(self._lines):
            lines.pop()  # the block brings the end of its last line, so this is the next line's empty start
        return lines

    def replace(self, text: str) -> None:
        """Replaces the whole text."""
        self._text = well_formed(text)
        self._lines = split_lines(self._text)
        self._note(None)
        self._anchor = (0, 0)
        self.cursor = None
        self.break_chain()

    def hand_out(self, mark: int) -> tuple[Edit, ...] | None:
        """The edits from the text handed out before to the text at `mark`, which now counts as handed out.

        None where that chain is not known.
        """
        count = mark - self._log_start
        if count < 0:
            return None
        edits = tuple(self._log[:count]) if self._handed_out else None
        del self._log[:count]
        self._log_start = mark
        self._handed_out = True
        return edits

    def break_chain(self) -> None:
        """The next text handed out does not follow by edits from the last one."""
        self._log_start = self.mark + 1
        self._log.clear()
        self._handed_out = False

    def _remember(self, edit: Edit) -> None:
        self._log.append(edit)
        if len(self._log) > MAX_LOGGED_EDITS:
            self.break_chain()

    def _first_line_touched(self, start: Point) -> int:
        """A lone `\\r` before the edit may become the half of a `\\r\\n`."""
        before = start.line - 1
        return before if before >= 0 and self._lines[before].endswith("\r") else start.line

    def _line_start(self, line: int) -> int:
        anchor, offset = self._anchor
        if line >= anchor:
            offset += sum(map(len, self._lines[anchor:line]))
        else:
            offset -= sum(map(len, self._lines[line:anchor]))
        self._anchor = (line, offset)
        return offset


class Documents:
    """The documents that one client holds open."""

    def __init__(self) -> None:
        self._open: dict[str, Document] = {}  # the most recently edited last
        self._left: dict[str, int | None] = {}  # where the user was last seen in those that were closed

    def __contains__(self, uri: str) -> bool:
        return uri in self._open

    @property
    def uris(self) -> Iterator[str]:
        return iter(self._open)

    def holds(self, document: Document) -> bool:
        """Whether it is still open, and was not opened anew."""
        return self._open.get(document.uri) is document

    def open(self, uri: str, language_id: str, version: int, text: str) -> Document:
        """Where it was open before, its cursor is taken to be where it was."""
        self.close(uri)
        document = self._open[uri] = Document(uri, language_id, version, text)
        if (left := self._left.pop(uri, None)) is not None:
            document.cursor = min(left, len(document.text))
        return document

    def close(self, uri: str) -> None:
        if (document := self._open.pop(uri, None)) is not None:
            self._left[uri] = document.cursor
            if len(self._left) > MOST_LEFT:
                del self._left[next(iter(self._left))]

    def get(self, uri: str) -> Document:
        try:
            return self._open[uri]
        except KeyError:
            raise UnknownDocument("This document is not open here: send textDocument/didOpen first.") from None

    def touch(self, uri: str) -> Document:
        """The document, which is being edited."""
        document = self.get(uri)
        self._open[uri] = self._open.pop(uri)
        return document

    def others(self, uri: str) -> Iterator[Document]:
        """The other documents, the most recently edited first."""
        return (document for document in reversed(self._open.values()) if document.uri != uri)


def split_lines(text: str) -> list[str]:
    """The lines with their ends; the last one has none, and may be empty."""
    lines = list(io.StringIO(text, newline=""))
    if not lines or lines[-1].endswith(("\r", "\n")):
        lines.append("")
    return lines


def well_formed(text: str) -> str:
    """`text` with half surrogate pairs, which JSON can carry but UTF-8 cannot, replaced by U+FFFD: as many units."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text)
    return text
