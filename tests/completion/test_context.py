"""The windows around the cursor: their bounds, and that typing leaves them where they are."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.context import (
    CLOSING,
    DEFAULT_WINDOW,
    Window,
    gather,
    line_end,
    line_start,
    prefix_start,
    suffix_range,
)
from ghostdraft.completion.types import Snapshot

TEXTS = st.text(st.sampled_from("ab \t(){}\n\r\f\u2028é😀"), max_size=400)


def snapshot(text: str, cursor: int) -> Snapshot:
    return Snapshot("file:///a", 1, "python", text, cursor)


@given(TEXTS, st.integers(0, 400), st.integers(1, 100))
def test_the_window_before_the_cursor_is_bounded_and_never_much_smaller(text: str, cursor: int, most: int) -> None:
    cursor = min(cursor, len(text))
    start = prefix_start(text, cursor, most)
    assert 0 <= start <= cursor
    assert cursor - start <= most
    assert start == 0 or cursor - start >= most - 2 * max(1, most // 4)


@given(TEXTS, st.integers(0, 400), st.integers(1, 100))
def test_the_window_behind_the_cursor_is_bounded_and_touches_the_cursors_line(
    text: str, cursor: int, most: int
) -> None:
    cursor = min(cursor, len(text))
    begin, end = suffix_range(text, cursor, most)
    assert cursor <= begin
    assert not text[cursor:begin].strip(CLOSING)
    assert begin <= end <= min(len(text), begin + most)


def test_typing_keeps_both_windows() -> None:
    before = "".join(f"line {i} of the file\n" for i in range(400))
    behind = "\n" + "".join(f"line {i} behind\n" for i in range(400))
    typed = "x" * 300
    window = Window(2048, 512)
    seen = [gather(snapshot(before + typed[:i] + behind, len(before) + i), window) for i in range(len(typed))]
    starts = [len(before) + i - len(context.prefix) for i, context in enumerate(seen)]
    assert len(set(starts)) <= 2
    assert len({context.suffix for context in seen}) == 1
    assert all(context.prefix.startswith("line ") for context in seen)


@pytest.mark.parametrize(
    "marked", ["f¦", "f(¦)", "f(g('¦'))", "f(¦);", "f({¦})", "f({\n  ¦\n})", "f(¦)\n  }\n\n}", "f(¦)\r\n}\r"]
)
def test_what_an_editor_closes_by_itself_does_not_move_the_window_behind(marked: str) -> None:
    before, _, behind = (marked + "\nnext()\n").partition("¦")
    assert gather(snapshot(before + behind, len(before)), DEFAULT_WINDOW).suffix == "\nnext()\n"


def test_code_behind_the_cursor_is_seen() -> None:
    assert gather(snapshot("f(bar)\nnext()\n", 2), DEFAULT_WINDOW).suffix == "bar)\nnext()\n"
    assert gather(snapshot("f() + g()\n", 2), DEFAULT_WINDOW).suffix == ") + g()\n"
    assert gather(snapshot("f()\n}\n", 2), DEFAULT_WINDOW).suffix.strip(CLOSING) == ""


@pytest.mark.parametrize("where", [0, 1])
def test_a_window_costs_the_same_in_a_large_file(where: int) -> None:
    """Twenty thousand windows of a large file take far less time than reading it as often would."""
    text = "some line of code\n" * 200_000
    large = snapshot(text, where * (len(text) - 20))
    started = time.perf_counter()
    for _ in range(1000):
        gather(large, DEFAULT_WINDOW)
    assert time.perf_counter() - started < 1.0


@pytest.mark.parametrize(
    ("text", "cursor", "start", "end"),
    [("", 0, 0, 0), ("ab\r\ncd", 4, 4, 6), ("ab\r\ncd", 2, 0, 2), ("ab\rcd", 3, 3, 5), ("a\fb\u2028c\nd", 5, 0, 5)],
)
def test_lines_end_as_the_protocol_says(text: str, cursor: int, start: int, end: int) -> None:
    assert (line_start(text, cursor), line_end(text, cursor)) == (start, end)
