"""Which part of the buffer the model sees: a window before the cursor and one behind it.

Costs as much as the window, whatever the file's size. Typing keeps both windows where they are: the first begins at
a place that depends on the text before the cursor in steps of a quarter of its size, and so the model's cache of it
survives; the second begins behind the cursor, and depends on the text there alone. Knows nothing of tokens.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

from ghostdraft.completion.types import Context, Snapshot

STEPS = 4  # the first window moves by so many of its parts

CLOSING = string.whitespace + ")]}>'\"`;,:"


DEFAULT_CONTEXT = 2048  # tokens that a model sees, its answer among them


@dataclass(frozen=True, slots=True)
class Window:
    """Most code points before and behind the cursor."""

    prefix: int
    suffix: int

    @staticmethod
    def of(context: int) -> Window:
        """What a context of so many tokens has room for in most code, beside the answer: three quarters of it at
        somewhat more than three code points a token."""
        return Window(2 * context, context // 2)

    def halved(self) -> Window:
        return Window(self.prefix // 2, self.suffix // 2)


DEFAULT_WINDOW = Window.of(DEFAULT_CONTEXT)


def gather(snapshot: Snapshot, window: Window) -> Context:
    """The windows around the cursor; both begin and end at line breaks where there are any."""
    start = prefix_start(snapshot.text, snapshot.cursor, window.prefix)
    begin, end = suffix_range(snapshot.text, snapshot.cursor, window.suffix)
    return Context(snapshot.text[start : snapshot.cursor], snapshot.text[begin:end])


def prefix_start(text: str, cursor: int, most: int) -> int:
    """The first line start behind a multiple of a quarter of `most`; the rest of the file's lines do not matter.

    A line without an end in sight is cut at that multiple.
    """
    if cursor <= most:
        return 0
    step = max(1, most // STEPS)
    least = -(-(cursor - most) // step) * step
    newline = text.find("\n", least - 1, least + step)
    return newline + 1 if newline >= 0 else least


def suffix_range(text: str, cursor: int, most: int) -> tuple[int, int]:
    """Where the text behind the cursor begins for the model, and where it ends.

    It begins at the cursor, if code stands behind it on its line; else with the line break before the next line of
    code. What only closes something, on the cursor's line and the next ones, is left out: editors put it there with
    every bracket that is typed, and each time all that the model's cache holds would be for nothing. Stop rules know
    that it stands there.
    """
    seen, own_end = text[cursor : cursor + most], line_end(text, cursor)
    code = cursor + len(seen) - len(seen.lstrip(CLOSING))
    newline = max(text.rfind("\n", cursor, code), text.rfind("\r", cursor, code))
    begin = newline if newline >= 0 else own_end if code >= own_end else cursor
    if len(text) - begin <= most:
        return begin, len(text)
    newline = text.rfind("\n", begin, begin + most)
    return begin, newline + 1 if newline > begin else begin + most


def with_line_feeds(text: str) -> str:
    """The text with \\n as its only line break."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def line_start(text: str, cursor: int) -> int:
    """Where the cursor's line begins. Lines end with \\n, \\r\\n or a lone \\r, as in the Language Server Protocol."""
    start = text.rfind("\n", 0, cursor) + 1
    return max(start, text.rfind("\r", start, cursor) + 1)


def line_end(text: str, cursor: int) -> int:
    """Where the cursor's line ends, before its line break. Looks no further than the next one."""
    newline = text.find("\n", cursor)
    end = len(text) if newline < 0 else newline
    lone = text.find("\r", cursor, end)
    return end if lone < 0 else lone
