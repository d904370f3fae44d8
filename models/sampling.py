"""Logits to probabilities, by the one function that target and draft share. Knows nothing of models or drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ghostdraft.models.types import FloatArray

Probabilities = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 is greedy; top_k 0 and top_p 1 keep every token."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    GREEDY: ClassVar[Sampling]

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


Sampling.GREEDY = Sampling()


def probabilities(logits: FloatArray, sampling: Sampling) -> Probabilities:
    """[..., vocab] logits to [..., vocab] probabilities, float64: temperature, then top-k, then top-p, renormalised."""
    scaled = logits.astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    if sampling.top_k:
        weights = _top_k(weights, sampling.top_k)
    if sampling.top_p < 1.0:
        weights = _top_p(weights, sampling.top_p)
    return weights / weights.sum(axis=-1, keepdims=True)


def _top_k(weights: Probabilities, k: int) -> Probabilities:
    if k >= weights.shape[-1]:
        return weights
    order = np.argsort(-weights, axis=-1, kind="stable")
    kept = weights.copy()
    np.put_along_axis(kept, order[..., k:], 0.0, axis=-1)
    return kept


def _top_p(weights: Probabilities, p: float) -> Probabilities:
    """Keeps the smallest set of best tokens whose probability reaches p (Holtzman et al. 2020)."""
    order = np.argsort(-weights, axis=-1, kind="stable")
    ranked = np.take_along_axis(weights, order, axis=-1)
    before = np.cumsum(ranked, axis=-1) - ranked
    kept = weights.copy()
    cut = np.where(before < p * ranked.sum(axis=-1, keepdims=True), ranked, 0.0)
    np.put_along_axis(kept, order, cut, axis=-1)
    return kept
