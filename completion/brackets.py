"""Brackets and quotes of a piece of a line, read without a grammar: it need not be whole, nor valid.

What is open is a list of marks, outermost first. A quote makes what follows text, in which only its own kind counts,
and the start of an interpolation, which makes what follows code again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

OPENERS = "([{"
CLOSERS = ")]}"
QUOTES = "'\"`"
CLOSER_OF = dict(zip(OPENERS + QUOTES, CLOSERS + QUOTES, strict=True))
MARKS = re.compile(r"\\.|[$#]\{|\{\$|\$\(|['\"`()\[\]{}]", re.DOTALL)
INTERPOLATIONS = ("${", "#{", "{$", "$(")  # in strings of any language, but for those in single quotes
NO_STRING = re.compile(r"[\w&<]")  # before a ': an apostrophe, or a lifetime
PREFIX = re.compile(r"(?<!\w)[rbfuRBFU]{1,2}$")  # before a ': Python's f'...'


def left_open(text: str, opened: Sequence[str] = ()) -> list[str]:
    """What `text` opens and does not close; `opened`: what is open where it begins."""
    return _read(text, opened)[1]


def unmatched_closers(text: str, opened: Sequence[str] = ()) -> list[int]:
    """Where `text` closes what was opened before it; `opened`: what is known of that."""
    return _read(text, opened)[0]


def open_between(line: str, rest: str) -> list[str]:
    """What is open behind `line`. A bracket in a string is text, unless `rest`, which stands behind, closes it."""
    opened = left_open(line)
    if not _in_string(opened):
        return opened
    inside = left_open(line[line.rfind(opened[-1]) + 1 :].replace(r"\(", "("))  # Swift's interpolation
    closers = zip(reversed(inside), "".join(rest.split()), strict=False)
    closed = list(takewhile(lambda pair: CLOSER_OF[_bracket(pair[0])] == pair[1], closers))
    return opened + inside[len(inside) - len(closed) :]


def _read(text: str, opened: Sequence[str]) -> tuple[list[int], list[str]]:
    """Where the text closes what was opened before it, and what it opened itself and left open."""
    closers, stack, before = [], [*opened], len(opened)
    for match in MARKS.finditer(text):
        mark = match[0]
        if _opens(mark, stack, text[max(0, match.start() - 3) : match.start()]):
            stack.append(mark)
        elif _closes(mark, stack):
            if len(stack) <= before:
                closers.append(match.start())
                before = max(len(stack) - 1, 0)
            stack[-1:] = []
    return closers, stack[before:]


def _opens(mark: str, stack: Sequence[str], before: str) -> bool:
    """`before`: the three code points before it, or as many as there are."""
    if _in_string(stack):
        return mark in INTERPOLATIONS and stack[-1] != "'"
    return mark in OPENERS or mark in INTERPOLATIONS or (mark in QUOTES and _opens_string(mark, before))


def _closes(mark: str, stack: Sequence[str]) -> bool:
    return mark == stack[-1] if _in_string(stack) else mark in CLOSERS


def _in_string(stack: Sequence[str]) -> bool:
    return bool(stack) and stack[-1] in QUOTES


def _bracket(mark: str) -> str:
    """The bracket that an interpolation starts with, or the mark itself."""
    return mark.strip("$#")


def _opens_string(quote: str, before: str) -> bool:
    return quote != "'" or not NO_STRING.match(before[-1:]) or PREFIX.search(before) is not None
