"""Drafts written by a small model that follows the target's text in a cache of its own.

A line: the small model's likeliest token, behind it the likeliest next, until the next one would not pay. Nothing is
drawn, so the accept rule of lines chosen without chance holds, also where the target samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.types import ANYTHING, Draft, Opening, Verdict
from ghostdraft.models.types import FloatArray, IntArray, LanguageModel, Pass

LEAST_CHANCE = 0.2  # of a token with all before it: one with less does not pay where a second row costs next to nothing
MOST = 16  # tokens


class DraftModelDrafter:
    """`model` tells logits over the draft vocabulary: those of the tokens `vocabulary` [n], in ascending order."""

    name = DrafterName.DRAFT_MODEL.value

    def __init__(self, model: LanguageModel, vocabulary: IntArray) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._text: list[int] = []  # prompt and output, all that stands
        self._read: list[int] = []  # what the model's cache holds

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]]) -> None:  # noqa: ARG002
        self._text = list(token_ids)

    def propose(self, max_tokens: int, opening: Opening = ANYTHING) -> Draft:
        token_ids: list[int] = []
        chances: list[float] = []
        chance = 1.0
        room = min(max_tokens, MOST, self._model.context - len(self._text))
        while len(token_ids) < room:
            token, probability = self._likeliest(self._follow(token_ids), opening)
            chance *= probability
            if chance < LEAST_CHANCE:
                break
            token_ids.append(token)
            chances.append(chance)
            opening = opening.after(token)
        return Draft.line(token_ids, chances=chances)

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._text.extend((*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token))

    def reset(self) -> None:
        self._model.truncate(0)
        self._read.clear()

    def _follow(self, drafted: Sequence[int]) -> FloatArray:
        """[n] the logits behind the text and what is drafted. What the cache holds already is not read again."""
        wanted = [*self._text, *drafted]
        shared = min(common_prefix(self._read, wanted), len(wanted) - 1)
        self._model.truncate(shared)
        del self._read[shared:]
        while len(self._read) < len(wanted):
            rows = wanted[len(self._read) :][: self._model.max_rows]
            last = len(self._read) + len(rows) == len(wanted)
            result = self._model.forward(rows, [len(rows) - 1] if last else [])
            self._model.keep(range(len(rows)))
            self._read.extend(rows)
        return result.logits[0]

    def _likeliest(self, logits: FloatArray, opening: Opening) -> tuple[int, float]:
        """A token that the opening allows, and how likely the model holds it."""
        if not opening.met:
            logits = np.where(np.isin(self._vocabulary, opening.allowed()), logits, -np.inf)
        best = int(logits.argmax())
        if logits[best] == -np.inf:
            return 0, 0.0
        return int(self._vocabulary[best]), float(1 / np.exp(logits - logits[best]).sum())
