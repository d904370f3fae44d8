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
    if not np.isfinite(logits.max()):
        raise ValueError("the logits have no largest finite value")
    kept = _top(logits, 1 if sampling.greedy else sampling.top_k or logits.size)
    if sampling.top_p < 1.0 and kept.size > 1:
        kept = kept[_top(logits[kept], _nucleus(logits[kept], sampling))]
    weights = _weights(logits[kept], sampling.temperature) if kept.size > 1 else np.ones(1)
    spread = np.zeros(logits.size)
    spread[kept] = weights / weights.sum()
    return spread


def _weights(logits: FloatArray, temperature: float) -> Probabilities:
    """Relative to the best one's, which is 1."""
    with np.errstate(over="ignore"):  # a tiny temperature sends every token but the best to -inf, and so to 0
        weights: Probabilities = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    return weights


def _top(logits: FloatArray, count: int) -> Indices:
    """The `count` best tokens, ascending ids; the lower ids of equal ones. No sort."""
    if count >= logits.size:
        return np.arange(logits.size)
    threshold = -np.partition(-logits, count - 1)[count - 1]
    above = np.flatnonzero(logits > threshold)
    equal = np.flatnonzero(logits == threshold)
    return np.sort(np.concatenate((above, equal[: count - above.size])))


def _nucleus(logits: FloatArray, sampling: Sampling) -> int:
    """How many best tokens it takes to reach top-p (Holtzman et al. 2020, arXiv:1904.09751), at least one.

    Only the first few are ranked; where those do not reach it, all are.
    """
    goal = sampling.top_p * _weights(logits, sampling.temperature).sum()
    for count in (min(_FIRST_RANKED, logits.size), logits.size):
        ranked = -np.sort(np.partition(-logits, count - 1)[:count])
        reached = np.cumsum(_weights(ranked, sampling.temperature))
        if reached[-1] >= goal:
            return int(np.searchsorted(reached, goal)) + 1
    return logits.size
