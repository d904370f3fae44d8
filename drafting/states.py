"""The states of the target that a draft goes on from. Knows no model."""

from __future__ import annotations

import numpy as np

from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.types import FloatArray


class States:
    """The target's states behind the tokens [start, end) of a text."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self._rows: dict[int, FloatArray] = {}

    def __getitem__(self, positions: range) -> FloatArray:
        """[n, hidden]"""
        return np.stack([self._rows[position] for position in positions])

    def put(self, at: int, states: FloatArray) -> None:
        """[n, hidden] from `at` on; what stood there or behind is forgotten, and all, where there is a gap before."""
        if self.start <= at <= self.end:
            self.truncate(at)
        else:
            self._rows.clear()
            self.start = at
        self._rows.update(enumerate(states, at))
        self.end = at + len(states)

    def truncate(self, end: int) -> None:
        for position in range(max(end, self.start), self.end):
            del self._rows[position]
        self.end = max(self.start, min(self.end, end))


def standing(length: int, draft: Draft, verdict: Verdict, rows: int) -> tuple[int, list[int]]:
    """Of a pass over `rows` behind which the draft was judged, where a text of `length` tokens stood before: the
    position of the first row, and the rows that stand."""
    known = rows - len(draft)
    return length - known, [*range(known), *(known + i for i in verdict.accepted)]
