"""What flows through `drafting`: drafts, verdicts, and the drafter's one protocol.

This folder knows nothing of editors, syntax or text: tokens in, tokens out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ghostdraft.models.sampling import Probabilities
from ghostdraft.models.types import IntArray, Pass


@dataclass(frozen=True, slots=True)
class Draft:
    """A tree of proposed tokens; a line is a tree with one branch.

    `parents[i]` is the index of token i's parent, less than i, or -1 for a child of the last accepted token.
    `probs` [n, vocab] is the distribution that each token was really drawn from (a line only);
    None where the proposal is deterministic. Only then may there be `chances`: of each token, how likely the drafter
    holds it that it will be accepted, with all tokens on its path.
    """

    token_ids: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probs: Probabilities | None = None
    chances: tuple[float, ...] | None = None

    @staticmethod
    def line(
        token_ids: Sequence[int], probs: Probabilities | None = None, chances: Sequence[float] | None = None
    ) -> Draft:
        parents = tuple(range(-1, len(token_ids) - 1))
        return Draft(tuple(token_ids), parents, probs, None if chances is None else tuple(chances))

    def first(self, count: int) -> Draft:
        """The draft without the tokens behind the first `count`. Parents stand before their children, so it is whole.

        For drawn tokens `count` must not depend on what was drawn.
        """
        if count >= len(self):
            return self
        probs = None if self.probs is None else self.probs[:count]
        chances = None if self.chances is None else self.chances[:count]
        return Draft(self.token_ids[:count], self.parents[:count], probs, chances)

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`accepted`: indices into the draft, a path from the root; `next_token`: what the target says after it."""

    accepted: tuple[int, ...]
    next_token: int


class Opening(Protocol):
    """What the first tokens have to be like."""

    @property
    def met(self) -> bool:
        """Whether any token may follow from here on."""

    @property
    def left(self) -> bytes:
        """What they have to spell; nothing where it is met."""

    def allowed(self) -> IntArray:
        """[n] the tokens that may come next."""

    def fits(self, token_ids: Sequence[int]) -> bool:
        """Whether these may come next, one after the other."""

    def after(self, token_id: int) -> Opening:
        """What is left of it behind this token."""


class Anything:
    """The opening that leaves all open."""

    met = True
    left = b""

    def allowed(self) -> IntArray:
        return np.empty(0, np.int32)

    def fits(self, token_ids: Sequence[int]) -> bool:  # noqa: ARG002
        return True

    def after(self, token_id: int) -> Opening:  # noqa: ARG002
        return self


ANYTHING = Anything()


@dataclass(frozen=True, slots=True)
class Price:
    """What time costs: `rate`, the tokens that each second brings elsewhere; `row`, the seconds of one more row in the
    pass that judges a draft."""

    rate: float
    row: float

    @property
    def token(self) -> float:
        """The chance that a drafted token must have, so that its row pays."""
        return self.rate * self.row


FREE = Price(0.0, 0.0)


class Drafter(Protocol):
    @property
    def name(self) -> str: ...

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:
        """A new prompt: its tokens, and the tokens of the open buffers, which nobody changes: the same object again
        says the same. Learned state of earlier prompts may stay; what is learned of acceptance is the `language`'s."""

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        """The target read these tokens of the prompt, the first of which has the position `at`."""

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:
        """At most `max_tokens` tokens to follow what was observed so far; may be empty. What does not fit `opening` is
        never accepted. A draft costs time itself: it should pay at this price."""

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        """What became of the last proposal: the accepted tokens and `next_token` now stand. `result` has rows for what
        stood last, unread so far, and then for the draft."""

    def reset(self) -> None:
        """Forgets everything learned from earlier prompts (for benches). What it read of the last text may stay, as
        `begin` rolls that back to the prompt."""
