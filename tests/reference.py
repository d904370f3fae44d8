"""Definitions written out slowly, in float64, for the fast ones to be held against."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from ghostdraft.models.sampling import Probabilities, Sampling
from ghostdraft.models.types import FloatArray


def slow_probabilities(logits: FloatArray, sampling: Sampling) -> Probabilities:
    """Temperature, top-k, top-p, token by token: best first, the lower id first among equals."""
    order = sorted(range(logits.size), key=lambda token: (-logits[token], token))
    if sampling.top_k:
        order = order[: sampling.top_k]
    weights = np.exp((logits[order].astype(np.float64) - logits[order[0]]) / sampling.temperature)
    result = np.zeros(logits.size)
    reached, goal = 0.0, sampling.top_p * weights.sum()
    for token, weight in zip(order, weights, strict=True):
        if sampling.top_p < 1.0 and reached >= goal:
            break
        result[token] = weight
        reached += weight
    return result / result.sum()


def joint(
    logits_of: Callable[[tuple[int, ...]], FloatArray], prompt: tuple[int, ...], length: int, sampling: Sampling
) -> dict[tuple[int, ...], float]:
    """The probability of each sequence of `length` tokens behind `prompt`, by enumeration of all of them."""
    vocab = logits_of(prompt).size
    chances = {(): 1.0}
    for _ in range(length):
        steps = {past: slow_probabilities(logits_of((*prompt, *past)), sampling) for past in chances}
        chances = {(*past, x): chance * steps[past][x] for (past, chance), x in product(chances.items(), range(vocab))}
    return chances
