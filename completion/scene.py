"""What stands around the cursor, as the stop rules and the postprocessing see it. Knows nothing of tokens or models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import gcd

from ghostdraft.completion.blocks import Block, block_opened, columns, header, header_before, indentation
from ghostdraft.completion.brackets import QUOTES, open_between
from ghostdraft.completion.context import CLOSING, line_end, line_start, with_line_feeds
from ghostdraft.completion.syntax import Leaf, Literal, Reading, Trees
from ghostdraft.completion.types import Snapshot

SIGHT = 4096  # code points in each direction
LINE_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Scene:
    language_id: str
    before: str  # the text up to the cursor, as far as is looked
    line: str  # of the cursor's line what stands before the cursor
    rest: str  # and what stands behind it
    preceding: tuple[str, ...] = ()  # lines before it that are not blank, the nearest last
    following: tuple[str, ...] = ()  # lines behind it that are not blank, the nearest first
    block: Block | None = None  # the one whose missing body begins on the cursor's empty line
    indent: str = ""  # one level, where all of the file around the cursor agrees: a tab, or blanks
    eol: str = "\n"
    reading: Reading | None = None  # None: no grammar

    @property
    def rest_closes(self) -> bool:
        """Whether the rest of the line only closes what was opened before, or is empty."""
        return not self.rest.strip(CLOSING)

    @property
    def opened(self) -> tuple[str, ...]:
        """Brackets and quotes that the line before the cursor leaves open, as far as is looked; none in a comment."""
        marks = open_between(self.line[-SIGHT:], self.rest)
        in_comment = marks and self.reading is not None and self.reading.literal is Literal.COMMENT
        return () if in_comment else tuple(marks)

    @property
    def literal(self) -> Literal | None:
        """What the cursor stands in."""
        if any(mark in QUOTES for mark in self.opened):
            return Literal.STRING
        return self.reading.literal if self.reading else None

    @property
    def brackets_known(self) -> bool:
        """Whether `opened` tells what is open: in code, and in a string that begins on the cursor's line."""
        return bool(self.opened) or self.literal is None

    def body_missing(self, indent: int) -> bool:
        """Whether no deeper line than the header at `indent` columns stands behind the cursor."""
        return not self.following or columns(self.following[0]) <= indent

    def leaves(self, suggestion: str, start: int, end: int) -> list[Leaf]:
        """The tokens within [start, end), in code points from the cursor, once `suggestion` stands there."""
        if self.reading is None:
            return []
        backwards = self.reading.branch.leaves_before(suggestion, end)
        return list(takewhile(lambda leaf: leaf.start >= start, backwards))[::-1]

    def block_at(self, suggestion: str, end: int) -> Block | None:
        """The block that the line opens which ends at `end`, in code points from the cursor, once `suggestion` stands
        there."""
        if self.reading is None:
            return None
        text, cursor = self.before + suggestion, len(self.before)
        backwards = self.reading.branch.leaves_before(suggestion, end)
        leaves, start = header(backwards, lambda place: line_start(text, cursor + place) - cursor)
        return block_opened(leaves, columns(text[cursor + start :]), start, self.language_id) if leaves else None


def look(snapshot: Snapshot, trees: Trees) -> Scene:
    """The scene of the cursor; what its grammar says of it costs an incremental parse once it is asked."""
    text, cursor = snapshot.text, snapshot.cursor
    start, end = line_start(text, cursor), line_end(text, cursor)
    before, behind = _lines_before(text, start), _lines_behind(text, end)
    scene = Scene(
        language_id=snapshot.language_id,
        before=text[max(0, cursor - SIGHT) : cursor],
        line=text[start:cursor],
        rest=text[cursor:end],
        preceding=tuple(filter(str.strip, before))[-3:],
        following=tuple(filter(str.strip, behind))[:8],
        indent=_indent([*before, *behind]),
        eol=_eol(text, start, end),
        reading=trees.read(snapshot),
    )
    return replace(scene, block=_missing_body(scene))


def _missing_body(scene: Scene) -> Block | None:
    """The block whose header is the last code before the cursor's empty line, where it has no body yet."""
    if scene.reading is None or scene.line.strip() or not scene.rest_closes or scene.literal:
        return None
    last = header_before(scene.reading.branch.leaves_before("", 0))
    block = scene.block_at("", last.end) if last else None
    return block if block and scene.body_missing(block.indent) else None


def _indent(lines: Sequence[str]) -> str:
    """One level of indentation, where all indented lines agree on tabs or on blanks."""
    leads = [lead for line in lines if line.strip() and (lead := indentation(line))]
    if leads and all(lead.strip("\t") == "" for lead in leads):
        return "\t"
    if not leads or "\t" in "".join(leads):
        return ""
    return " " * gcd(*map(len, leads))


def _eol(text: str, start: int, end: int) -> str:
    """The line break of the cursor's line, or of the line before where it has none."""
    own = LINE_BREAK.match(text, end)
    if own is None and start > 0:
        own = LINE_BREAK.match(text, start - 2) or LINE_BREAK.match(text, start - 1)
    return own[0] if own else "\n"


def _lines_before(text: str, start: int) -> list[str]:
    """Whole lines, the nearest last."""
    least = max(0, start - SIGHT)
    lines = with_line_feeds(text[least:start]).split("\n")[:-1]
    return lines if least == 0 else lines[1:]


def _lines_behind(text: str, end: int) -> list[str]:
    """Whole lines, the nearest first."""
    lines = with_line_feeds(text[end : end + SIGHT]).split("\n")[1:]
    return lines if end + SIGHT >= len(text) else lines[:-1]
