"""Heads on the target's last state, each of which guesses one of the tokens to come, whatever those before it are
(Medusa: T. Cai et al. 2024, arXiv:2401.10774). All of them take one pass, so a tree of their guesses costs no more than
a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.states import States, standing
from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.types import FloatArray, IntArray, Pass


class Heads(Protocol):
    def __call__(self, hidden: FloatArray) -> FloatArray:
        """From a state [hidden] of the target logits [heads, draft vocab], first those of the token after the next."""


class Medusa:
    """A `Guesser`. `heads` tell logits of `vocabulary` [draft vocab]."""

    def __init__(self, name: str, heads: Heads, vocabulary: IntArray) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self._heads = heads
        self._text: list[int] = []
        self._states = States()  # the target's: its last one, and those of this output, which may be typed on from
        self._logits: FloatArray = np.empty((0, len(vocabulary)), np.float32)

    def begin(self, token_ids: Sequence[int]) -> None:
        self._states.truncate(min(common_prefix(self._text, token_ids), len(token_ids) - 1))
        self._text = list(token_ids)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        if result.hidden is not None:
            self._states.put(at + len(token_ids) - 1, result.hidden[-1:].copy())

    def follow(self) -> FloatArray | None:
        last = len(self._text) - 2
        if last not in range(self._states.start, self._states.end):
            return None
        self._logits = self._heads(self._states[range(last, last + 1)][0])
        return self._logits[:1]

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        """What lies beyond the last head is held for equally likely, all of it."""
        depths: list[int] = []
        for parent in parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        found = np.zeros((fresh, len(self.vocabulary)), np.float32)
        for row, depth in zip(found, depths[len(token_ids) - fresh :], strict=True):
            row[:] = self._logits[depth] if depth < len(self._logits) else 0.0
        return found

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        hidden = result.hidden
        if hidden is not None:
            at, rows = standing(len(self._text), draft, verdict, len(hidden))
            self._states.put(at, hidden[rows])
        self._text.extend((*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token))
