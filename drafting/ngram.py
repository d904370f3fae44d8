"""Drafts copied from what was already written: the prompt, the tokens generated so far, the open buffers, and what was
taken back lately, as is a suggestion that nobody took (prompt lookup: Saxena 2023; Yang et al. 2023, arXiv:2304.04487).

Knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.memory import Memory, Place
from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Opening, Price, Verdict
from ghostdraft.drafting.votes import Votes
from ghostdraft.models.types import Pass

DRAFT_LENGTH = 16
LEAST = 0.02  # the chance below which a token does not pay even where rows cost next to nothing


class NgramDrafter:
    name = DrafterName.NGRAM.value

    def __init__(self) -> None:
        self._memory = Memory()

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:  # noqa: ARG002
        self._memory.begin(token_ids, buffers)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:
        places = self._memory.places()
        if not opening.met:
            places = fitting(places, opening)
        return Votes(places, max(LEAST, price.token / 2)).draft(min(max_tokens, DRAFT_LENGTH))

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._memory.extend([*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token])

    def reset(self) -> None:
        self._memory = Memory()


def fitting(places: Sequence[Place], opening: Opening) -> list[Place]:
    """Those where what stands behind fits the opening."""
    begins = cache(lambda token: opening.fits((token,)))  # many places go on alike
    return [place for place in places if begins(place.line[0]) and opening.fits(place.line)]
