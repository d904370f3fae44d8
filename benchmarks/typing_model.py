"""When a programmer presses which key: intervals drawn from a seed, by what stands on both sides of them.

Intervals between keys are log-normal, a good fit for free text (Gonzalez and others 2021, "On the shape of timings
distributions in free-text keystroke dynamics profiles"), and longer at the bounds of larger units of text (Baaijen and
others 2012; Medimorec and Risko 2017): so words come in bursts. Enter brings the next line's indent with it, as in
editors, and time to think is spent after it. The medians and spreads below are this bench's own round figures: over
the list's holes they come to about 50 words of five keys a minute, near the mean of 52 that Dhakal and others 2018
found ("Observations on typing from 136 million keystrokes"). An interval is at most `MOST`, so that a replay does not
wait for a programmer who reads. No mistakes are made, nothing is deleted, no bracket closes by itself.

Knows no clock and no editor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random

KEY = re.compile(r"\n[ \t]*|[^\n]")
LEAST, MOST = 0.02, 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Interval:
    """A log-normal distribution: its median in seconds, and the standard deviation of the logarithm."""

    median: float
    spread: float

    def draw(self, chance: Random) -> float:
        return min(max(chance.lognormvariate(math.log(self.median), self.spread), LEAST), MOST)


INSIDE = Interval(0.15, 0.35)  # a word, a run of marks or blanks, or before Enter
WORD = Interval(0.25, 0.6)  # before the first key of a word, or of a run of marks
LINE = Interval(0.7, 0.7)  # before the first key of a line
BLOCK = Interval(1.4, 0.7)  # the same, where the indent changed or a line was left blank


@dataclass(frozen=True, slots=True)
class Keystroke:
    """`text` comes `at` seconds after the first key."""

    text: str
    at: float


def keystrokes(text: str, indent: str, chance: Random) -> list[Keystroke]:
    """The keys that write `text` behind a line's `indent`."""
    keys = KEY.findall(text)
    gaps = (interval.draw(chance) for interval in intervals(keys, indent))
    times = accumulate(gaps, initial=0.0)
    return [Keystroke(key, at) for key, at in zip(keys, times, strict=False)]


def intervals(keys: Sequence[str], indent: str) -> Iterator[Interval]:
    """What lies between each two keys."""
    breaks = 0
    for before, after in pairwise(keys):
        breaks = breaks + 1 if before[0] == "\n" else 0
        if not breaks or after[0] == "\n":
            yield WORD if _begins(before, after) else INSIDE
        else:
            yield LINE if breaks == 1 and before[1:] == indent else BLOCK
            indent = before[1:]


def _begins(before: str, after: str) -> bool:
    """Whether `after` is the first key of a word or of a run of marks."""
    return not after.isspace() and _kind(before) != _kind(after)


def _kind(key: str) -> str:
    return "blank" if key.isspace() else "word" if key.isalnum() or key == "_" else "mark"
