"""Drafts that a model grows into a tree, from nothing or from what others copied: it says what follows a node where
that pays. Nothing is drawn, so the accept rule of trees holds, also where the target samples.

What pays: a pass over some nodes takes time, in which the target would write tokens too; it brings a token for each
node that is accepted and whose next one it knows (a tree by confidence: Y. Li et al. 2024, arXiv:2406.16858). What is
in doubt is learned: how far to trust each source, how often the model knows the next token, how long a pass takes.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ghostdraft.drafting.mixing import Mixer
from ghostdraft.drafting.nodes import ROOT, Nodes
from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Drafter, Opening, Price, Verdict
from ghostdraft.models.types import FloatArray, IntArray, Pass

DEEPEST = 12  # tokens
MOST_NODES = 32
WIDEST = 3  # tokens side by side that the model names
LEAST = 0.04  # of a chance that a token must have to be named
HOPE = 0.6  # how often the model names the next token, until more is known
MEMORY = 0.98  # of that stays with each token
FADING = 0.001  # of what was learned is forgotten in each step in which it was not asked
PASSES = 16  # whose time is remembered


class Guesser(Protocol):
    """A model that says what may follow the text. It hears of the text what a `Drafter` does."""

    @property
    def name(self) -> str: ...

    @property
    def vocabulary(self) -> IntArray:
        """[draft vocab] the tokens that it knows, ascending."""

    def begin(self, token_ids: Sequence[int]) -> None: ...

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None: ...

    def follow(self) -> FloatArray | None:
        """[1, draft vocab] logits behind the text; None where it cannot tell."""

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        """[fresh, draft vocab] logits behind the last `fresh` nodes of this tree behind the text; the others were asked
        about before. Parents as in `Draft`."""

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None: ...


class GrowingDrafter:
    """A model alone, or `hybrid`: with drafters that copy."""

    def __init__(self, name: str, guesser: Guesser | None, copiers: Sequence[Drafter] = ()) -> None:
        self.name = name
        self._guesser = guesser
        self._copiers = copiers
        self._forget()

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:
        for copier in self._copiers:
            copier.begin(token_ids, buffers, language)
        if self._guesser:
            self._guesser.begin(token_ids)
        self._mixer, self._hope = self._mixers[language], self._hopes[language]
        self._caught_up = False
        self._drop()

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        if self._guesser:
            self._guesser.read(at, token_ids, result)

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:
        self._drop(opening)
        for copier in self._copiers:
            self._nodes.merge(copier.name, copier.propose(max_tokens, opening, price))
        self._nodes.weigh()
        if self._guesser and max_tokens > 0:
            self._grow(self._guesser, price, min(MOST_NODES, max_tokens))
        return self._nodes.draft(max_tokens)

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        came = [*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token]
        self._learn_hope(came)
        self._nodes.learn(came)
        self._drop()
        for copier in self._copiers:
            copier.observe(draft, verdict, result)
        if self._guesser:
            self._guesser.observe(draft, verdict, result)

    def reset(self) -> None:
        for copier in self._copiers:
            copier.reset()
        self._forget()

    def _forget(self) -> None:
        self._mixers: defaultdict[str, Mixer] = defaultdict(Mixer)  # by language
        self._hopes: defaultdict[str, Average] = defaultdict(lambda: Average(HOPE, 8))
        self._mixer, self._hope = self._mixers[""], self._hopes[""]
        self._caught_up = False  # with the prompt: the first pass may read much of it, and says nothing of others
        self._passes: deque[float] = deque(maxlen=PASSES)  # the seconds of the last ones
        self._drop()

    def _drop(self, opening: Opening = ANYTHING) -> None:
        """The last draft: what comes in steps without one says nothing of it."""
        self._nodes = Nodes(self._mixer, opening)
        self._asked: list[int] = []  # nodes that the model was asked about, in this order

    def _grow(self, guesser: Guesser, price: Price, most: int) -> None:
        """Asks about so many nodes at most, the root among them: what stands behind more would not be drafted, and its
        rows might not fit."""
        front = [ROOT] if self._pays([ROOT], price) else []
        while front:
            started = time.perf_counter()
            if not self._ask(guesser, front):
                return
            if self._caught_up:
                self._passes.append(time.perf_counter() - started)
            self._caught_up = True
            front = self._front(price, most - len(self._asked))

    def _ask(self, guesser: Guesser, front: list[int]) -> bool:
        """What follows these nodes; False where the model cannot tell."""
        logits = guesser.follow() if front == [ROOT] else self._expanded(guesser, front)
        if logits is None:
            return False
        for number, row in zip(front, logits, strict=True):
            self._heed(guesser, number, row)
        self._asked += front
        self._nodes.weigh()
        return True

    def _expanded(self, guesser: Guesser, front: list[int]) -> FloatArray:
        numbers = [*self._asked[1:], *front]  # without the root
        places = {ROOT: -1} | {number: place for place, number in enumerate(numbers)}
        nodes = [self._nodes[number] for number in numbers]
        return guesser.expand([node.token for node in nodes], [places[node.parent] for node in nodes], len(front))

    def _heed(self, guesser: Guesser, number: int, logits: FloatArray) -> None:
        """Names the likeliest tokens, and says of those that others named how likely they are."""
        vocabulary = guesser.vocabulary
        chances = _chances(logits, vocabulary, self._nodes[number].left)
        if chances is None:
            return
        widest = min(WIDEST, len(chances))
        named = [i for i in np.argpartition(chances, -widest)[-widest:] if chances[i] >= LEAST]
        others = [i for token in self._nodes.children(number) if (i := _place(vocabulary, token)) is not None]
        for i in {*named, *others}:
            self._nodes.say(guesser.name, number, int(vocabulary[i]), float(chances[i]))

    def _front(self, price: Price, most: int) -> list[int]:
        """The nodes to ask about next, at most so many, where that pays."""
        asked = set(self._asked)
        numbers = range(1, len(self._nodes.all))
        new = [
            number for number in numbers
            if number not in asked and self._nodes[number].parent in asked and self._gain(number, price) > 0
        ]  # fmt: skip
        best = sorted(new, key=lambda number: -self._gain(number, price))[:most]
        return best if self._pays(best, price) else []

    def _pays(self, front: Sequence[int], price: Price) -> bool:
        return sum(self._gain(number, price) for number in front) > price.rate * self._pass_seconds

    @property
    def _pass_seconds(self) -> float:
        """What disturbs a pass makes it slower, so the least counts."""
        return min(self._passes, default=0.0)

    def _gain(self, number: int, price: Price) -> float:
        """Tokens that asking about a node brings beyond what its row costs and what is known of it already."""
        node = self._nodes[number]
        if node.depth >= DEEPEST:
            return 0.0
        known = max((self._nodes[child].chance for child in self._nodes.children(number).values()), default=0.0)
        return node.chance * self._hope.value - known - price.token

    def _learn_hope(self, came: Sequence[int]) -> None:
        """How often the model had the token among those that it named, where it was asked; where it was not, it is
        given another chance some day."""
        if not self._asked:
            self._hope.fade()
        at: int | None = ROOT
        for token in came:
            if at is None or at not in self._asked:
                return
            at = self._nodes.children(at).get(token)
            self._hope.learn(float(at is not None))


class Average:
    """The mean of what was learned lately; `guess` counts like so many values."""

    def __init__(self, guess: float = 0.0, count: int = 0) -> None:
        self.value = self._guess = guess
        self._count = count

    def learn(self, value: float) -> None:
        self._count += 1
        self.value += max(1 - MEMORY, 1 / self._count) * (value - self.value)

    def fade(self) -> None:
        """Towards the guess."""
        self.value += FADING * (self._guess - self.value)


def _chances(logits: FloatArray, vocabulary: IntArray, opening: Opening) -> FloatArray | None:
    """[draft vocab] of the tokens that the opening allows; None where it allows none that is known, or the logits are
    no numbers."""
    if not opening.met:
        logits = np.where(np.isin(vocabulary, opening.allowed()), logits, -np.inf)
    most = logits.max()
    if not np.isfinite(most):
        return None
    weights: FloatArray = np.exp(logits - most)
    weights /= weights.sum()
    return weights


def _place(vocabulary: IntArray, token: int) -> int | None:
    """Where a token stands in the vocabulary."""
    place = int(np.searchsorted(vocabulary, token))
    return place if place < len(vocabulary) and vocabulary[place] == token else None
