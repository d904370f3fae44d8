"""Which line opens a block, and by what sign that block ends. Knows grammars' tokens, not how they were found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ghostdraft.completion.syntax import Leaf

OPENERS = re.compile(r"[^\w\s]*?([(\[{]+)")  # "{", "((", "${"
CLOSERS = re.compile(r"([)\]}]+)[^\w\s]*")
STRINGS = frozenset({"string_start", "string_content", "string_end", "escape_sequence"})
TAB = 4  # columns, where tabs and blanks are compared


class Sign(Enum):
    """What ends a block: the bracket that closes it, a line that is not deeper than its header, or a word there."""

    BRACKET = "bracket"
    DEDENT = "dedent"
    WORD = "word"


@dataclass(frozen=True, slots=True)
class Words:
    """How a language that closes its blocks with words opens them, goes on in them and ends them."""

    first: frozenset[str]  # open a block at the start of a line
    last: frozenset[str]  # open one at its end
    within: frozenset[str]  # open one anywhere
    middle: frozenset[str]
    end: frozenset[str]


WORDS = {
    "ruby": Words(
        first=frozenset(
            {
                "class",
                "module",
                "def",
                "if",
                "unless",
                "while",
                "until",
                "case",
                "begin",
                "for",
                "else",
                "elsif",
                "when",
                "rescue",
                "ensure",
            }
        ),
        last=frozenset(),
        within=frozenset({"do"}),
        middle=frozenset({"else", "elsif", "rescue", "ensure", "when", "in"}),
        end=frozenset({"end"}),
    ),
    "lua": Words(
        first=frozenset({"function"}),
        last=frozenset({"do", "then", "else", "repeat"}),
        within=frozenset({"function"}),
        middle=frozenset({"else", "elseif"}),
        end=frozenset({"end", "until"}),
    ),
    "shellscript": Words(
        first=frozenset(),
        last=frozenset({"do", "then", "else", "in"}),
        within=frozenset(),
        middle=frozenset({"else", "elif", "then", "do"}),
        end=frozenset({"fi", "done", "esac"}),
    ),
}
COLON_LANGUAGES = frozenset({"python", "yaml"})
LINE_LANGUAGES = frozenset({"html", "toml", "sql"})  # no rule for their blocks: single lines


@dataclass(frozen=True, slots=True)
class Block:
    """`indent`: columns of its header's first line; `start`: where that begins, in code points from the cursor."""

    sign: Sign
    indent: int
    start: int
    words: Words | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """`depth`: brackets left open; `last`: the last token but for comments; `literal`: ends inside a string."""

    depth: int
    last: str
    literal: bool


def outline(leaves: Sequence[Leaf]) -> Outline:
    """Closers of brackets that were opened before the leaves count for nothing."""
    depth, last, strings = 0, "", 0
    for leaf in leaves:
        if leaf.kind == "comment":
            continue
        last = leaf.kind
        strings += (last == "string_start") - (last == "string_end")
        depth = max(0, depth + _brackets(OPENERS, leaf) - _brackets(CLOSERS, leaf))
    ticks = sum(leaf.kind == "`" for leaf in leaves)
    return Outline(depth, last, strings > 0 or ticks % 2 == 1)


def _brackets(kind: re.Pattern[str], leaf: Leaf) -> int:
    """How many brackets of this kind the token is: "((" is two."""
    found = kind.fullmatch(leaf.kind)
    return len(found[1]) if found else 0


def header(leaves: Iterable[Leaf], line_of: Callable[[int], int]) -> tuple[list[Leaf], int]:
    """The tokens of the statement that ends with the first of these, which come from the last one on, and where it
    begins: at the line that holds the opener of every bracket which is closed on its last one. `line_of`: from a place
    to where its line begins."""
    found, start, closed = list[Leaf](), 0, 0
    for leaf in leaves:
        if found and leaf.start < start and not closed:
            break
        start = min(start, line_of(leaf.start)) if found else line_of(leaf.start)
        closed += _brackets(CLOSERS, leaf)
        closed = max(0, closed - _brackets(OPENERS, leaf))
        found.append(leaf)
    return found[::-1], start


def block_opened(leaves: Sequence[Leaf], indent: int, start: int, language_id: str) -> Block | None:
    """The block that a header of these tokens opens."""
    if language_id in LINE_LANGUAGES:
        return None
    line = outline(leaves)
    if line.literal:
        return None
    words = WORDS.get(language_id)
    if line.depth > 0:
        return Block(Sign.BRACKET, indent, start, words)
    if line.last == ":" and language_id in COLON_LANGUAGES:
        return Block(Sign.DEDENT, indent, start)
    if words is not None and _opens_with_word([leaf.kind for leaf in leaves if leaf.kind != "comment"], words):
        return Block(Sign.WORD, indent, start, words)
    return None


def _opens_with_word(kinds: Sequence[str], words: Words) -> bool:
    if not kinds or words.end.intersection(kinds):
        return False
    return kinds[0] in words.first or kinds[-1] in words.last or bool(words.within.intersection(kinds))


def header_before(leaves: Iterable[Leaf]) -> Leaf | None:
    """The last token before a block's body, where only comments and a docstring follow it. `leaves`: from the last."""
    described = False
    for leaf in leaves:
        if leaf.kind in STRINGS:
            described = True
        elif leaf.kind != "comment":
            return None if described and leaf.kind != ":" else leaf
    return None


def columns(line: str) -> int:
    """The width of a line's indentation."""
    return len(indentation(line).expandtabs(TAB))


def indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
