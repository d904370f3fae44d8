"""Decoding at the holes, all contenders in turns: what each took, and how it compares with ours.

At each hole our engine writes first, one token at a time, which says how many tokens the others have to write. A row's
time at a hole is the median of its rounds; the ratio of the summed times is the figure, since a hole with three tokens
says little by itself. Among a row's variants the one with the least sum stands for it. Knows no contender.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ghostdraft.benchmarks.contenders import Contender
from ghostdraft.benchmarks.decode import Task, quartiles, rotated
from ghostdraft.benchmarks.holes import Cursor

PAUSE = 0.05  # seconds, in which the last contender's threads fall asleep

Show = Callable[[int, str], None]  # so many holes are done, and who writes


@dataclass(frozen=True, slots=True)
class Times:
    """Of one contender: at each hole how many tokens, and the seconds of its rounds."""

    name: str
    variant: str
    tokens: list[int] = field(default_factory=list)
    rounds: list[list[float]] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        return [statistics.median(of) for of in self.rounds]


@dataclass(frozen=True, slots=True)
class Row:
    """`ratio` is its time over ours for all tokens together, above 1 where ours is faster; the quartiles are over the
    holes. `tokens_per_second` counts what one-token decoding writes up to its stop."""

    name: str
    variant: str
    tokens_per_second: float
    ratio: float
    ratio_quartiles: tuple[float, float, float]


def measure(
    read: Callable[[Cursor], Task],
    contenders: Sequence[Contender],
    cursors: Sequence[Cursor],
    rounds: int,
    show: Show,
) -> list[Times]:
    """`read` is our first run at a cursor. Raises PeerFailed."""
    times = [Times(contender.name, contender.variant) for contender in contenders]
    for done, cursor in enumerate(cursors):
        task = read(cursor)
        for contender, of in zip(contenders, times, strict=True):
            show(done, f"{contender.name} reads")
            contender.read(task)
            of.tokens.append(task.tokens)
            of.rounds.append([])
        for turn in range(rounds):
            for contender, of in rotated(list(zip(contenders, times, strict=True)), turn + done):
                show(done, contender.name)
                time.sleep(PAUSE)
                of.rounds[-1].append(contender.write(task))
    return times


def rows(times: Sequence[Times], ours: str) -> list[Row]:
    """One for each name, in their order; `ours` is the name that all are held against."""
    names = dict.fromkeys(of.name for of in times)
    best = {name: min((of for of in times if of.name == name), key=lambda of: sum(of.seconds)) for name in names}
    return [_row(of, best[ours]) for of in best.values()]


def fastest(rows: Sequence[Row], begins: str) -> Row:
    """Among those whose name begins so."""
    return min((row for row in rows if row.name.startswith(begins)), key=lambda row: row.ratio)


def _row(of: Times, ours: Times) -> Row:
    return Row(
        of.name,
        of.variant,
        tokens_per_second=sum(of.tokens) / sum(of.seconds),
        ratio=sum(of.seconds) / sum(ours.seconds),
        ratio_quartiles=quartiles([theirs / mine for theirs, mine in zip(of.seconds, ours.seconds, strict=True)]),
    )
