"""What the passes of one model cost on one machine, as a function of their rows. Pure: knows no clock and no file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

Point = tuple[int, float]  # rows of a pass, and the seconds that it takes


@dataclass(frozen=True, slots=True)
class Costs:
    """Passes behind some `context` tokens, by ascending rows: `verify` with the logits of each row, `prefill` with
    none. `draft`: the seconds in which a draft is copied from what was written.

    Raises ValueError where rows do not ascend, or a pass takes no time or is not there.
    """

    context: int
    verify: tuple[Point, ...]
    prefill: tuple[Point, ...]
    draft: float = 0.0

    def __post_init__(self) -> None:
        for points in (self.verify, self.prefill):
            rows = [count for count, _ in points]
            if not points or rows != sorted(set(rows)) or min(seconds for _, seconds in points) <= 0:
                raise ValueError("costs need passes of ascending rows that take some time")

    @staticmethod
    def of(raw: Mapping[str, Any]) -> Costs:
        """From what JSON makes of `asdict`. Raises ValueError, TypeError, KeyError."""
        return Costs(int(raw["context"]), _points(raw["verify"]), _points(raw["prefill"]), float(raw["draft"]))

    @property
    def prefill_rate(self) -> float:
        """Tokens a second, in full passes."""
        rows, seconds = self.prefill[-1]
        return rows / seconds

    def verify_seconds(self, rows: int) -> float:
        return interpolated(self.verify, rows)

    def prefill_rows(self, seconds: float, most: int) -> int:
        """The most rows that a prefill pass reads in so many seconds; at least 1."""
        return max((rows for rows in range(1, most + 1) if interpolated(self.prefill, rows) <= seconds), default=1)


GUESS = Costs(0, verify=((1, 0.050), (11, 0.100)), prefill=((1, 0.050), (16, 0.060)))
"""Of a slow machine: what holds until something is measured."""


class CostStore(Protocol):
    """Keeps what a model's passes cost on this machine; `cost_file.CostFile` is one."""

    def read(self) -> Costs | None:
        """None where nothing was measured yet."""

    def write(self, costs: Costs) -> None:
        """Raises OSError."""


def interpolated(points: Sequence[Point], rows: int) -> float:
    """Seconds along straight lines from point to point; the last line goes on, and nothing is below the first point."""
    if len(points) == 1 or rows <= points[0][0]:
        return points[0][1]
    upper = min(bisect_left(points, rows, key=lambda point: point[0]), len(points) - 1)
    (rows0, seconds0), (rows1, seconds1) = points[upper - 1 : upper + 1]
    return seconds0 + (rows - rows0) * (seconds1 - seconds0) / (rows1 - rows0)


def curve(samples: Mapping[int, Sequence[float]]) -> tuple[Point, ...]:
    """From the seconds that passes of each width took. Whatever disturbs a pass makes it slower, so the least counts;
    and no pass costs more than a wider one, which does its work too."""
    rows = sorted(samples, reverse=True)
    least = accumulate((min(samples[count]) for count in rows), min)
    return tuple(sorted(zip(rows, least, strict=True)))


def _points(raw: Sequence[Sequence[float]]) -> tuple[Point, ...]:
    return tuple((int(rows), float(seconds)) for rows, seconds in raw)
