"""Whether drafting pays on this machine, from how often drafts are accepted and what passes cost. Pure.

An estimate for lines of drafts: in use, `draft_length` decides it anew for each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from ghostdraft.models.costs import Costs

DEEPEST = 12  # tokens
AROUND = 0.0005  # seconds of a draft's pass that are not spent in it


def speedup(acceptance: Sequence[float], share: float, costs: Costs, one_pass: bool) -> float:
    """Over decoding one token a pass, with drafts of the length that is best. `acceptance` by depth, of which the last
    holds for all that lie deeper, unless `one_pass` says them all. `share`: of the target's weights that a pass of the
    draft reads; a pass takes as long as its weights take to be read."""
    deepest = len(acceptance) if one_pass else DEEPEST
    chances = [*acceptance, *[acceptance[-1]] * deepest][:deepest]
    tokens: list[float] = list(accumulate(accumulate(chances, mul), initial=1.0))
    one = costs.verify_seconds(1)
    passes = [min(1, depth) if one_pass else depth for depth in range(deepest + 1)]
    seconds = [costs.verify_seconds(1 + depth) + passes[depth] * (AROUND + share * one) for depth in range(deepest + 1)]
    return max(one * tokens[depth] / seconds[depth] for depth in range(1, deepest + 1))
