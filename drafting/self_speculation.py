"""The target's own first layers, and its head behind them: a draft that needs no weights of its own (early exit:
M. Elhoushi et al. 2024, arXiv:2404.16710). What they leave in the target's cache is written anew by the pass that
judges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.types import FloatArray, IntArray, LanguageModel, Pass


class LayeredModel(LanguageModel, Protocol):
    """A model whose passes may end early."""

    def forward(
        self,
        token_ids: Sequence[int] | IntArray,
        logit_rows: Sequence[int] = (),
        parents: Sequence[int] | None = None,
        inputs: FloatArray | None = None,
        layers: int | None = None,
    ) -> Pass:
        """`layers`: through the first so many only."""


class SelfSpeculation:
    """A `Guesser`. `head`: from states [n, hidden] of `target` logits [n, draft vocab] of `vocabulary`."""

    def __init__(
        self,
        name: str,
        target: LayeredModel,
        layers: int,
        head: Callable[[FloatArray], FloatArray],
        vocabulary: IntArray,
    ) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self._target, self._layers, self._head = target, layers, head
        self._text: list[int] = []

    def begin(self, token_ids: Sequence[int]) -> None:
        self._text = list(token_ids)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def follow(self) -> FloatArray | None:
        return self._logits((), (), 1)

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        return self._logits(token_ids, parents, fresh)

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._text.extend((*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token))

    def _logits(self, token_ids: Sequence[int], parents: Sequence[int], count: int) -> FloatArray:
        """Behind the last `count` of what stands unread and of these nodes."""
        pending = self._text[self._target.length :]
        known = len(pending)
        line = (*range(-1, known - 1), *(known + parent for parent in parents))
        hidden = self._target.forward((*pending, *token_ids), (), line, layers=self._layers).hidden
        assert hidden is not None
        return self._head(hidden[-count:])
