"""Brackets and quotes of a piece of a line, read without a grammar: it need not be whole, nor valid."""

from __future__ import annotations

import re
from collections.abc import Iterator

OPENERS = "([{"
CLOSERS = ")]}"
QUOTES = "'\"`"
MARKS = re.compile(r"\\.|['\"`()\[\]{}]", re.DOTALL)
NO_STRING = re.compile(r"[\w&<]")  # before a ': an apostrophe, or a lifetime
PREFIX = re.compile(r"(?<!\w)[rbfuRBFU]{1,2}$")  # before a ': Python's f'...'


def left_open(line: str, quote: str = "") -> list[str]:
    """The brackets and the quote that the line opens and does not close, outermost first; `quote`: of the string that
    it begins in."""
    stack: list[str] = []
    for _, mark, opens in _marks(line, quote):
        if opens:
            stack.append(mark)
        elif stack:
            stack.pop()
    return stack


def open_quote(line: str) -> str:
    """The quote of the string that the line ends in, or "" outside of strings."""
    return next((mark for mark in left_open(line)[-1:] if mark in QUOTES), "")


def unmatched_closers(text: str, quote: str = "") -> list[int]:
    """Where `text` closes what was opened before it: brackets, and the string with `quote` that it begins in."""
    depth, found = 0, []
    for at, _, opens in _marks(text, quote):
        if opens:
            depth += 1
        elif depth:
            depth -= 1
        else:
            found.append(at)
    return found


def _marks(text: str, quote: str) -> Iterator[tuple[int, str, bool]]:
    """Each bracket outside of strings and each quote around one: its place, and whether it opens."""
    for match in MARKS.finditer(text):
        mark = match[0]
        if quote:
            if mark == quote:
                quote = ""
                yield match.start(), mark, False
        elif mark in OPENERS or mark in CLOSERS:
            yield match.start(), mark, mark in OPENERS
        elif mark in QUOTES and (mark != "'" or _opens_string(text[: match.start()])):
            quote = mark
            yield match.start(), mark, True


def _opens_string(before: str) -> bool:
    return not NO_STRING.match(before[-1:]) or PREFIX.search(before[-3:]) is not None
