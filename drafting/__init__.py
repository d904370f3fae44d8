"""Who proposes tokens, and who judges them. Knows nothing of editors, syntax or text."""

from __future__ import annotations

from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import Drafter

NAMES = (NoDrafter.name, NgramDrafter.name)


def make(name: str) -> Drafter | None:
    """A new drafter by its name in the settings, or None where there is no such drafter."""
    if name == NoDrafter.name:
        return NoDrafter()
    if name == NgramDrafter.name:
        return NgramDrafter()
    return None
