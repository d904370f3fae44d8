"""Who proposes tokens, and who judges them. Knows nothing of editors, syntax or text."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ghostdraft.drafting.datastore import Datastore
    from ghostdraft.drafting.types import Drafter, Loaded


class DrafterName(StrEnum):
    """All drafters, as settings name them; light to import."""

    NONE = "none"
    NGRAM = "ngram"
    CORPUS = "corpus"


DEFAULT = DrafterName.NGRAM


def make(name: str, loaded: Loaded | None = None, datastore: Datastore | None = None) -> Drafter | None:
    """A new drafter by its name in the settings, or None where there is no such drafter, or not without what is not
    given: the model that it drafts for, or the texts that it drafts from."""
    if name == DrafterName.NONE:
        from ghostdraft.drafting.none import NoDrafter

        return NoDrafter()
    if name == DrafterName.NGRAM:
        from ghostdraft.drafting.ngram import NgramDrafter

        return NgramDrafter()
    if name == DrafterName.CORPUS and loaded is not None and datastore is not None:
        from ghostdraft.drafting.corpus import CorpusDrafter

        return CorpusDrafter(datastore, loaded.tokenizer, loaded.spec)
    return None
