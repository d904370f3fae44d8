"""Who proposes tokens, and who judges them. Knows nothing of editors, syntax or text."""

from __future__ import annotations

from enum import StrEnum


class DrafterName(StrEnum):
    """All drafters, as settings name them; light to import."""

    NONE = "none"
    NGRAM = "ngram"
    CORPUS = "corpus"
    DRAFT_MODEL = "draft-model"
    SELF = "self"
    MEDUSA = "medusa"
    EAGLE = "eagle"
    HYBRID = "hybrid"


DEFAULT = DrafterName.NGRAM
