"""A draft model that sees the target's states, too (after EAGLE: Y. Li et al. 2024, arXiv:2401.15077).

Row j is made of token j + 1 and of the state that it came of, the target's behind token j; it tells token j + 2. Behind
the text, where the target has no states yet, its own stand for them. States are those behind a final norm; the target's
are brought to a mean square of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.draft_model import SLIDE, WINDOW, window_start
from ghostdraft.drafting.states import States, standing
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
        """`inputs` [n, target's hidden + own hidden]: one of the two states, and zeros for the other."""


Norm = Callable[[FloatArray], FloatArray]
"""Of states [n, hidden]."""


class Eagle:
    """A `Guesser`. `network` tells logits of `vocabulary` [draft vocab]; its context is `CONTEXT` at least;
    `target_norm` and `own_norm`: of the states; `target_hidden`: the width of the target's."""

    def __init__(
        self,
        name: str,
        network: StateNetwork,
        vocabulary: IntArray,
        target_norm: Norm,
        own_norm: Norm,
        target_hidden: int,
    ) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self._network = network
        self._target_norm, self._own_norm = target_norm, own_norm
        self._text: list[int] = []
        self._states = Inputs(target_hidden, network.shape.hidden)
        self._start = 0  # the row that is the network's first
        self._firm = 0  # how many of its rows stay: behind them, states are yet to come
        self._guesses: list[FloatArray] = []  # inputs behind the text, and behind each node asked about

    def begin(self, token_ids: Sequence[int]) -> None:
        shared = common_prefix(self._text, token_ids)
        self._text = list(token_ids)
        self._states.truncate(shared)
        self._keep_firm(shared - 1)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        if at + len(token_ids) > len(self._text) - WINDOW - SLIDE:
            self._hear(at, result.hidden)
            self._catch_up()

    def follow(self) -> FloatArray | None:
        """Rows whose states are yet to come do without. The last one runs again, if its logits were not asked for."""
        self._keep_firm(len(self._text) - 2)
        firm = self._catch_up()
        result = self._run(len(self._text) - 1) or firm
        if result is None or result.hidden is None:
            return None
        self._guesses = [self._states.own(result.hidden[-1], self._own_norm)]
        return result.logits

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        inputs = np.stack([self._guesses[parent + 1] for parent in parents])
        result = self._network.forward(token_ids, range(len(token_ids) - fresh, len(token_ids)), parents, inputs)
        logits, hidden = result.logits, result.hidden
        assert hidden is not None
        self._guesses = [self._guesses[0], *(self._states.own(one, self._own_norm) for one in hidden)]
        return logits

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        hidden = result.hidden
        if hidden is not None:
            at, rows = standing(len(self._text), draft, verdict, len(hidden))
            self._hear(at, hidden[rows])
        self._text.extend((*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token))

    def _hear(self, at: int, hidden: FloatArray | None) -> None:
        if hidden is not None:
            self._states.put(at, self._target_norm(hidden))
            self._keep_firm(at)

    def _catch_up(self) -> Pass | None:
        """The rows whose states are there; they stay."""
        self._move()
        result = self._run(min(self._states.end, len(self._text) - 1))
        self._firm = self._network.length
        return result

    def _run(self, end: int) -> Pass | None:
        """Keeps the rows up to there, with the logits of the last one; None where none is left."""
        result = None
        while (at := self._start + self._network.length) < end:
            rows = range(at, min(end, at + self._network.max_rows))
            inputs = self._states[rows]
            result = self._network.forward(self._text[at + 1 : rows.stop + 1], [len(rows) - 1], inputs=inputs)
            self._network.keep(range(len(rows)))
        return result

    def _keep_firm(self, end: int) -> None:
        """The rows from number `end` on are to run anew."""
        self._firm = max(0, min(self._firm, end - self._start))

    def _move(self) -> None:
        """To the window over the text as it is, without the rows that do not stay."""
        start = window_start(self._start, len(self._text))
        self._network.truncate(self._firm if start == self._start else 0)
        self._start = start


class Inputs(States):
    """What the network takes beside tokens: the target's states, or one of its own; zeros where there is none."""

    def __init__(self, target_hidden: int, own_hidden: int) -> None:
        super().__init__()
        self._widths = target_hidden, own_hidden

    def __getitem__(self, positions: range) -> FloatArray:
        """[n, width]"""
        none = np.zeros(sum(self._widths), np.float32)
        return np.stack([self._rows.get(position, none) for position in positions])

    def own(self, hidden: FloatArray, norm: Norm) -> FloatArray:
        """[own hidden] -> [width]"""
        return np.pad(norm(hidden), (self._widths[0], 0))

    def put(self, at: int, states: FloatArray) -> None:
        scaled = states / np.sqrt(np.square(states).mean(axis=1, keepdims=True))
        super().put(at, np.pad(scaled, ((0, 0), (0, self._widths[1]))))
