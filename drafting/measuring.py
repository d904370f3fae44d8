"""Measures what passes of a model cost on this machine, in moments when nobody else wants it. Knows nothing of text."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from ghostdraft.drafting.ngram import DRAFT_LENGTH, NgramDrafter
from ghostdraft.models.costs import Costs, CostStore, curve
from ghostdraft.models.types import Interrupted, LanguageModel

CONTEXT = 512  # tokens that the passes stand behind, at least
MOST_FILLING = 3.0  # seconds, in which these are read: on a slow machine they are fewer
ROUNDS = 3
MOST_SECONDS = 6.0  # for passes; what is missing then is left to the lines between points
HISTORY = 1024  # tokens that a draft is copied from

Halted = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Probe:
    """A pass over so many rows, with the logits of each or of none."""

    rows: int
    logits: bool


# What says most comes first: the time may be up before the end.
PROBES = (
    *(Probe(rows, True) for rows in (1, 8)),
    Probe(64, False),
    *(Probe(rows, True) for rows in (2, 4, 16, 3, 5, 6, 7, 12)),
    *(Probe(rows, False) for rows in (16, 32)),
    *(Probe(rows, True) for rows in (24, 32)),
)
WIDEST = max(probe.rows for probe in PROBES)
ENOUGH = 3  # probes


class Measuring:
    """Passes of `model` that keep nothing: whatever its cache holds stays. May be left at any time, and goes on from
    there; a model of less than twice `CONTEXT` is measured behind half of its context."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._behind = min(CONTEXT, model.context // 2)
        self._most = min(WIDEST, model.max_rows, model.context // 2)
        self._left = [probe for probe in PROBES if probe.rows <= self._most] * ROUNDS
        self._taken: dict[Probe, list[float]] = defaultdict(list)
        self._passes = 0

    def go_on(self, halted: Halted) -> Costs | None:
        """What passes cost, once all is measured. None where it was halted or interrupted before, or the cache holds
        too much to measure behind."""
        kept = self._model.length
        if kept + self._most > self._model.context:
            return None
        try:
            return self._costs() if self._fill(halted) and self._measure(halted) else None
        except Interrupted:
            return None
        finally:
            self._model.truncate(kept)

    def _fill(self, halted: Halted) -> bool:
        """Keeps some tokens more, where there are too few to measure behind; False: halted."""
        end = time.perf_counter() + MOST_FILLING
        while (missing := self._behind - self._model.length) > 0 and time.perf_counter() < end:
            if halted():
                return False
            rows = min(missing, self._model.max_rows)
            self._model.forward(self._tokens(rows))
            self._model.keep(range(rows))
        return True

    def _measure(self, halted: Halted) -> bool:
        """False: halted."""
        while self._left and not self._is_late():
            if halted():
                return False
            probe = self._left[0]
            self._taken[probe].append(self._seconds(probe))
            del self._left[0]
        return True

    def _is_late(self) -> bool:
        return len(self._taken) >= ENOUGH and sum(map(sum, self._taken.values())) >= MOST_SECONDS

    def _seconds(self, probe: Probe) -> float:
        started = time.perf_counter()
        self._model.forward(self._tokens(probe.rows), range(probe.rows) if probe.logits else ())
        return time.perf_counter() - started

    def _tokens(self, rows: int) -> list[int]:
        """Others each time: a pass over those of an interrupted one might go on where that ended."""
        self._passes += 1
        return [(self._passes + i) % self._model.shape.vocab for i in range(rows)]

    def _costs(self) -> Costs:
        verify = curve({probe.rows: taken for probe, taken in self._taken.items() if probe.logits})
        prefill = curve({probe.rows: taken for probe, taken in self._taken.items() if not probe.logits})
        return Costs(self._model.length, verify, prefill or verify, _draft_seconds())


def measure_now(model: LanguageModel, store: CostStore) -> None:
    """All in one go, in under 10 seconds; what comes out is kept. Raises OSError."""
    costs = Measuring(model).go_on(lambda: False)
    if costs is not None:
        store.write(costs)


def measure_once(model: LanguageModel, store: CostStore) -> None:
    """As `measure_now`, unless something is kept there already. Raises OSError."""
    if store.read() is None:
        measure_now(model, store)


def _draft_seconds() -> float:
    """A whole draft of n-grams, copied from text that repeats itself."""
    drafter = NgramDrafter()
    drafter.begin([i % 97 for i in range(HISTORY)], ())
    started = time.perf_counter()
    for _ in range(ROUNDS):
        drafter.propose(DRAFT_LENGTH)
    return (time.perf_counter() - started) / ROUNDS
