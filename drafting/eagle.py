"""A layer over the target's own states (EAGLE: Y. Li et al. 2024, arXiv:2401.15077).

Row j is made of the target's state behind token j and of token j + 1, and guesses the state behind token j + 1, from
which a head tells token j + 2. Behind the text, where the target has no states yet, its own guesses stand for them.
States are those behind a final norm, the target's or its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.draft_model import SLIDE, WINDOW, window_start
from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.types import FloatArray, IntArray, LanguageModel, Pass


class StateNetwork(LanguageModel, Protocol):
    """A model that takes states beside tokens."""

    def forward(
        self,
        token_ids: Sequence[int] | IntArray,
        logit_rows: Sequence[int] = (),
        parents: Sequence[int] | None = None,
        inputs: FloatArray | None = None,
    ) -> Pass:
        """`inputs` [n, target's hidden]"""


Norm = Callable[[FloatArray], FloatArray]
"""Of states [n, hidden]."""


class Eagle:
    """A `Guesser`. `network` tells logits of `vocabulary` [draft vocab]; its context is `CONTEXT` at least;
    `target_norm` and `own_norm`: of the states."""

    def __init__(
        self, name: str, network: StateNetwork, vocabulary: IntArray, target_norm: Norm, own_norm: Norm
    ) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self._network = network
        self._target_norm, self._own_norm = target_norm, own_norm
        self._text: list[int] = []
        self._states = States()
        self._start = 0  # the row that is the network's first
        self._guesses: list[FloatArray] = []  # the states behind the text, and behind each node asked about

    def begin(self, token_ids: Sequence[int]) -> None:
        shared = common_prefix(self._text, token_ids)
        self._text = list(token_ids)
        self._states.truncate(shared)
        self._truncate(min(shared - 1, len(token_ids) - 2))

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        if at + len(token_ids) > len(self._text) - WINDOW - SLIDE:
            self._hear(at, result.hidden)
            self._catch_up()

    def follow(self) -> FloatArray | None:
        result = self._catch_up() if self._states.end == len(self._text) - 1 else None
        if result is None or result.hidden is None:
            return None
        self._guesses = list(self._own_norm(result.hidden[-1:]))
        return result.logits

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        inputs = np.stack([self._guesses[parent + 1] for parent in parents])
        result = self._network.forward(token_ids, range(len(token_ids) - fresh, len(token_ids)), parents, inputs)
        logits, hidden = result.logits, result.hidden
        assert hidden is not None
        self._guesses = [self._guesses[0], *self._own_norm(hidden)]
        return logits

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        hidden = result.hidden
        if hidden is not None:
            known = len(hidden) - len(draft)
            self._hear(len(self._text) - known, hidden[[*range(known), *(known + i for i in verdict.accepted)]])
        self._text.extend((*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token))

    def reset(self) -> None:
        self.begin(())

    def _hear(self, at: int, hidden: FloatArray | None) -> None:
        if hidden is not None:
            self._states.put(at, self._target_norm(hidden))

    def _catch_up(self) -> Pass | None:
        """Runs the rows whose states and tokens are there, with the logits of the last one; None where none is left."""
        self._move()
        result, end = None, min(self._states.end, len(self._text) - 1)
        while (at := self._start + self._network.length) < end:
            rows = range(at, min(end, at + self._network.max_rows))
            inputs = self._states[rows]
            result = self._network.forward(self._text[at + 1 : rows.stop + 1], [len(rows) - 1], inputs=inputs)
            self._network.keep(range(len(rows)))
        return result

    def _move(self) -> None:
        start = max(window_start(self._start, len(self._text)), self._states.start)
        if start != self._start:
            self._network.truncate(0)
            self._start = start

    def _truncate(self, end: int) -> None:
        """Forgets the rows from number `end` on."""
        self._network.truncate(max(0, min(self._network.length, end - self._start)))


class States:
    """The target's states behind the tokens [start, end) of the text."""

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
