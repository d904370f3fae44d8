"""Logits to probabilities, by the one function that target and draft share. Knows nothing of models or drafts.

Order: temperature, then top-k, then top-p, renormalised. Among equal logits the lower token id ranks higher, so that
`best`, top-k and top-p agree with each other on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ghostdraft.models.types import FloatArray

Probabilities = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_FIRST_RANKED = 256  # tokens ranked first for top-p; the nucleus of a code model is nearly always smaller


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 is greedy; top_k 0 and top_p 1 keep every token. Raises ValueError for values out of range."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    GREEDY: ClassVar[Sampling]

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be 0 (greedy) or a positive number, not {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (every token) or a positive number, not {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be more than 0 and at most 1 (every token), not {self.top_p}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, but is {self.seed}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


Sampling.GREEDY = Sampling()


def best(logits: FloatArray) -> int:
    """The token with the largest of `logits` [vocab]; of equal ones the lowest id."""
    return int(logits.argmax())


def probabilities(logits: FloatArray, sampling: Sampling) -> Probabilities:
    """[..., vocab] logits to [..., vocab] probabilities, float64. Greedy sampling puts all on the best token.

    Raises ValueError where a row has no largest finite logit (all -inf, any NaN or +inf).
    """
    rows = logits.reshape(-1, logits.shape[-1])
    return np.stack([_row(row, sampling) for row in rows]).reshape(logits.shape)


def draw(weights: Probabilities, rng: np.random.Generator) -> int:
    """One token from non-negative `weights` [vocab], which need not sum to 1; never one of weight 0."""
    reached = np.cumsum(weights)
    return int(np.searchsorted(reached, rng.random() * reached[-1], side="right"))


def _row(logits: FloatArray, sampling: Sampling) -> Probabilities:
    """[vocab] to [vocab]."""
    top = float(logits.max())
    if not np.isfinite(top):
        raise ValueError("the logits have no largest finite value")
    if sampling.greedy:
        return _spread(np.array([best(logits)]), np.ones(1), logits.size)
    kept = _top_k(logits, sampling.top_k)
    with np.errstate(over="ignore"):  # a tiny temperature sends every token but the best to -inf, and so to 0
        weights = np.exp((logits[kept].astype(np.float64) - top) / sampling.temperature)
    kept, weights = _top_p(kept, weights, sampling.top_p)
    return _spread(kept, weights / weights.sum(), logits.size)


def _spread(kept: Indices, weights: Probabilities, vocab: int) -> Probabilities:
    spread = np.zeros(vocab)
    spread[kept] = weights
    return spread


def _top_k(logits: FloatArray, k: int) -> Indices:
    """The k best tokens, ascending ids; k 0 keeps all."""
    if k == 0 or k >= logits.size:
        return np.arange(logits.size)
    return np.sort(_ranked(logits, k))


def _top_p(kept: Indices, weights: Probabilities, p: float) -> tuple[Indices, Probabilities]:
    """The smallest set of best tokens whose share of `weights` reaches p (Holtzman et al. 2020, arXiv:1904.09751)."""
    if p >= 1.0:
        return kept, weights
    goal = p * weights.sum()
    count = min(_FIRST_RANKED, weights.size)
    while True:
        order = _ranked(weights, count)
        before = np.concatenate(([0.0], np.cumsum(weights[order])[:-1]))
        nucleus = order[before < goal]
        if nucleus.size < count or count == weights.size:
            return kept[nucleus], weights[nucleus]
        count = min(count * 8, weights.size)


def _ranked(values: npt.NDArray[np.floating], count: int) -> Indices:
    """Indices of the `count` largest values, best first, lower index first among equals; no full sort of `values`."""
    threshold = -np.partition(-values, count - 1)[count - 1]
    above = np.flatnonzero(values > threshold)
    ties = np.flatnonzero(values == threshold)[: count - above.size]
    candidates = np.concatenate((above, ties))
    ascending = np.sort(candidates)
    return ascending[np.argsort(-values[ascending], kind="stable")]
