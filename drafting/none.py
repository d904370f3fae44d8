"""One-token decoding: the drafter that proposes nothing, and the baseline that every other one is held against."""

from __future__ import annotations

from collections.abc import Sequence

from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Opening, Price, Verdict
from ghostdraft.models.types import Pass


class NoDrafter:
    name = DrafterName.NONE.value

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:
        pass

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:  # noqa: ARG002
        return Draft()

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        pass

    def reset(self) -> None:
        pass
