"""Drafters for models that write nonsense: they know what will come, and are wrong as often as they are told to be.

What drafting costs is real where a draft model is given; whether a drafted token is right is played.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Opening, Price, Verdict
from ghostdraft.models.types import LanguageModel, Pass


class Played:
    """Drafts `count` tokens of a known `text` behind the prompt, each right with the chance `right`: as a line, or as
    a tree of pairs, of which one is wrong."""

    name = "played"

    def __init__(self, text: Sequence[int], count: int, right: float, tree: bool = False) -> None:
        self._text = tuple(text)
        self._count = count
        self._right = right
        self._tree = tree
        self._at = 0
        self._random = np.random.default_rng(0)

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:  # noqa: ARG002
        self._at = 0
        self._random = np.random.default_rng(0)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:  # noqa: ARG002
        count = min(self._count, max_tokens)
        coming = self._text[self._at : self._at + (count // 2 if self._tree else count)]
        played = [token if self._random.random() < self._right else self._wrong(token) for token in coming]
        return self._pairs(played) if self._tree else Draft.line(played)

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._at += len(verdict.accepted) + 1

    def reset(self) -> None:
        pass

    def _pairs(self, line: Sequence[int]) -> Draft:
        """Each token of the line with a wrong one beside it, which stands before it."""
        tokens = tuple(both for token in line for both in (self._wrong(token), token))
        parents = tuple(parent for depth in range(len(line)) for parent in (2 * depth - 1, 2 * depth - 1))
        return Draft(tokens, parents)

    def _wrong(self, token: int) -> int:
        return token - 1 if token else 1


class PlayedBy(Played):
    """With the passes that a draft model makes for it. Its vocabulary may be padded otherwise: no text is padding."""

    name = "draft model"

    def __init__(self, model: LanguageModel, text: Sequence[int], count: int, right: float) -> None:
        super().__init__(text, count, right)
        self._model = model
        self._pending: list[int] = []  # tokens that stand, but that the model has not read
        self._standing = 0  # how many it had read or was given, before those it drafted

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:
        super().begin(token_ids, buffers, language)
        self._model.truncate(0)
        *before, last = token_ids
        for at in range(0, len(before), self._model.max_rows):
            self._read(before[at : at + self._model.max_rows])
        self._pending = [last]

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:
        draft = super().propose(max_tokens, opening, price)
        self._standing = self._model.length + len(self._pending)
        following = self._pending
        for token in draft.token_ids:
            self._read(following)
            following = [token]
        return draft

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        super().observe(draft, verdict, result)
        accepted = [draft.token_ids[i] for i in verdict.accepted]
        if not draft:
            self._pending.append(verdict.next_token)
            return
        self._model.truncate(min(self._standing + len(accepted), self._model.length))
        read = self._model.length - self._standing
        self._pending = [*accepted[read:], verdict.next_token]

    def _read(self, token_ids: Sequence[int]) -> None:
        """One pass that ends with a token on the host, as when it were of use."""
        self._model.forward(token_ids, [len(token_ids) - 1])
        self._model.keep(range(len(token_ids)))
