"""One chance out of several: how likely a token is about which each of some sources says how likely it is.

Logistic mixing: the chance's log odds are a weighted sum of theirs, with weights for each set of sources, learned from
what came (M. Mahoney 2005, "Adaptive weighing of context models for lossless data compression"). A single source's
weight says how far it is to be trusted. Knows no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log

AGREED = 0.6  # of each one's log odds count at first where several speak
RATE = 0.02  # of learning
SUREST = 0.002  # chances stay so far from 0 and 1

Sources = tuple[str, ...]


class Mixer:
    def __init__(self) -> None:
        self._weights: dict[Sources, dict[str, float]] = {}

    def chance(self, said: Mapping[str, float]) -> float:
        """`said`: the chance by source; at least one."""
        weights = self._of(said)
        return 1 / (1 + exp(-sum(weights[source] * _odds(chance) for source, chance in said.items())))

    def learn(self, said: Mapping[str, float], came: bool) -> None:
        """Whether it was this token."""
        missed = came - self.chance(said)
        weights = self._of(said)
        for source, chance in said.items():
            weights[source] += RATE * missed * _odds(chance)

    def _of(self, said: Mapping[str, float]) -> dict[str, float]:
        sources = tuple(sorted(said))
        if sources not in self._weights:
            self._weights[sources] = dict.fromkeys(sources, 1.0 if len(sources) == 1 else AGREED)
        return self._weights[sources]


def _odds(chance: float) -> float:
    """Their logarithm."""
    chance = min(max(chance, SUREST), 1 - SUREST)
    return log(chance / (1 - chance))
