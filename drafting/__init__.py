"""Who proposes tokens, and who judges them. Knows nothing of editors, syntax or text."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ghostdraft.drafting.types import Drafter


class DrafterName(StrEnum):
    """All drafters, as settings name them; light to import."""

    NONE = "none"
    NGRAM = "ngram"


DEFAULT = DrafterName.NGRAM


def make(name: str) -> Drafter | None:
    """A new drafter by its name in the settings, or None where there is no such drafter."""
    if name == DrafterName.NONE:
        from ghostdraft.drafting.none import NoDrafter

        return NoDrafter()
    if name == DrafterName.NGRAM:
        from ghostdraft.drafting.ngram import NgramDrafter

        return NgramDrafter()
    return None
