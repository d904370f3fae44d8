"""The frequencies of rotary position embedding (Su et al. 2021), and how they are lowered for longer contexts.

The three ways are those of transformers' configurations: each pair of numbers in a head turns at a frequency of its
own, and those that turned seldom over the context of pretraining are slowed down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from ghostdraft.models.types import RopeScaling, Shape

Frequencies = npt.NDArray[np.float64]  # [head_dim / 2], radians a position


def frequencies(shape: Shape) -> Frequencies:
    plain: Frequencies = shape.rope_theta ** (-np.arange(0, shape.head_dim, 2) / shape.head_dim)
    scaling = shape.rope_scaling
    return plain if scaling is None else plain * SCALINGS[scaling.kind](plain, scaling)


def _linear(plain: Frequencies, scaling: RopeScaling) -> Frequencies:
    return np.full_like(plain, 1 / scaling.factor)


def _llama3(plain: Frequencies, scaling: RopeScaling) -> Frequencies:
    """From slowed down to as they were, linearly in the turns."""
    turns = scaling.context * plain / (2 * math.pi)
    kept: Frequencies = np.clip((turns - scaling.slow) / (scaling.fast - scaling.slow), 0, 1)
    return (1 - kept) / scaling.factor + kept


def _yarn(plain: Frequencies, scaling: RopeScaling) -> Frequencies:
    """From as they were to slowed down, linearly in the index of the pair (Peng et al. 2023)."""
    first, last = (_index_of(turns, plain, scaling) for turns in (scaling.fast, scaling.slow))
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * len(plain) - 1)
    slowed: Frequencies = np.clip((np.arange(len(plain)) - first) / ((last - first) or 0.001), 0, 1)
    return slowed / scaling.factor + 1 - slowed


def _index_of(turns: float, plain: Frequencies, scaling: RopeScaling) -> float:
    """Of the pair that turns so often over the context of pretraining, in fractions."""
    ratio = math.log(plain[0] / plain[1])  # between neighbours
    return math.log(scaling.context / (turns * 2 * math.pi)) / ratio


SCALINGS: Mapping[str, Callable[[Frequencies, RopeScaling], Frequencies]] = {
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
