"""The typing model: every key of the text once, in its order, and pauses where text has bounds."""

from __future__ import annotations

import statistics
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.benchmarks.typing_model import BLOCK, INSIDE, LEAST, LINE, MOST, WORD, Interval, intervals, keystrokes

TEXTS = st.text(st.sampled_from("ab_1(=) \t\n😀é"), min_size=1, max_size=80)
INDENTS = st.sampled_from(["", "    ", "\t"])


@given(TEXTS, INDENTS, st.integers())
def test_the_keys_write_the_text(text: str, indent: str, seed: int) -> None:
    assert "".join(stroke.text for stroke in keystrokes(text, indent, Random(seed))) == text


@given(TEXTS, INDENTS, st.integers())
def test_time_goes_on_within_bounds(text: str, indent: str, seed: int) -> None:
    strokes = keystrokes(text, indent, Random(seed))
    assert strokes[0].at == 0.0
    assert all(LEAST * 0.999 <= after.at - before.at <= MOST * 1.001 for before, after in pairwise(strokes))


@given(TEXTS, INDENTS, st.integers())
def test_a_line_begins_behind_its_indent(text: str, indent: str, seed: int) -> None:
    """Enter brings the indent along; every other key is one character."""
    strokes = [stroke.text for stroke in keystrokes(text, indent, Random(seed))]
    entered = [stroke[1:] for stroke in strokes if stroke.startswith("\n")]
    assert entered == [line[: len(line) - len(line.lstrip(" \t"))] for line in text.split("\n")[1:]]
    assert all(len(stroke) == 1 for stroke in strokes if not stroke.startswith("\n"))


@given(st.text("abc (\n", min_size=12, max_size=40), st.integers(0, 1000))
def test_the_seed_decides(text: str, seed: int) -> None:
    first = keystrokes(text, "", Random(seed))
    assert first == keystrokes(text, "", Random(seed))
    assert first != keystrokes(text, "", Random(seed + 1))


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (["a", "b", "(", "c"], [INSIDE, WORD, WORD]),
        (["a", " ", "=", "=", " ", "1"], [INSIDE, WORD, INSIDE, INSIDE, WORD]),
        (["a", "_", "1"], [INSIDE, INSIDE]),
        (["a", "\n  ", "b", "\n  ", "c"], [INSIDE, LINE, INSIDE, LINE]),
        (["a", "\n    ", "b", "\n  ", "c"], [INSIDE, BLOCK, INSIDE, BLOCK]),
        (["a", "\n", "\n  ", "b"], [INSIDE, INSIDE, BLOCK]),
    ],
)
def test_what_stands_on_both_sides_decides(keys: list[str], found: list[Interval]) -> None:
    assert list(intervals(keys, "  ")) == found


@pytest.mark.parametrize("interval", [INSIDE, WORD, LINE, BLOCK])
def test_half_of_the_intervals_are_longer_than_the_median(interval: Interval) -> None:
    chance = Random(7)
    drawn = [interval.draw(chance) for _ in range(4000)]
    assert statistics.median(drawn) == pytest.approx(interval.median, rel=0.08)


def test_larger_bounds_take_longer() -> None:
    medians = [interval.median for interval in (INSIDE, WORD, LINE, BLOCK)]
    assert medians == sorted(set(medians))
