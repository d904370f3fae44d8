"""Which of the target's tokens a draft knows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ghostdraft.drafting.train.sequences import Documents
from ghostdraft.models.types import IntArray

USUAL = 8192  # tokens


def usual_tokens(documents: Mapping[str, Documents], vocab: int, always: Sequence[int], count: int = USUAL) -> IntArray:
    """[count, or as many as there are] the tokens that are most frequent where each language weighs the same, and
    `always`; ascending."""
    counts = (np.bincount(one.tokens, minlength=vocab) for one in documents.values())
    shares = np.sum([one / max(1, one.sum()) for one in counts], axis=0)
    shares[list(always)] = np.inf
    return np.sort(np.argsort(-shares, kind="stable")[:count]).astype(np.int32)
