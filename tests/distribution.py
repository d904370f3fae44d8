"""Whether the output of the whole loop is distributed as the target's own, by chi-square over the joint of its tokens;
and accept rules that are wrong, each as somebody had it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from scipy import stats

from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.types import Verify
from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.sampling import Sampling, draw, probabilities
from ghostdraft.models.types import FloatArray
from tests.fakes import LogitsOf, Never, Tokens
from tests.reference import joint

LENGTH = 3  # tokens
SEEN = 1e-6  # a fault must be this unlikely to be chance
PASSED = 1e-3


def p_value(decoder: Decoder, logits_of: LogitsOf, prompt: Tokens, runs: int) -> float:
    """Of so many outputs with different seeds, against `logits_of` the target without any cache."""
    sampling = decoder.sampling
    seen: Counter[Tokens] = Counter()
    for seed in range(runs):
        decoder.sampling = replace(sampling, seed=seed)
        decoder.costs = decoder.costs  # nothing is learned of how long passes really take
        steps = decoder.run(prompt, (), LENGTH, (), Never())
        seen[tuple(token for step in steps if isinstance(step, Verify) for token in step.token_ids)] += 1
    return chi_square(seen, joint(logits_of, prompt, LENGTH, sampling))


def chi_square(seen: Counter[Tokens], expected: dict[Tokens, float]) -> float:
    """Cells that are expected less than five times are taken together."""
    if any(expected[cell] == 0 for cell in seen):
        return 0.0
    runs = seen.total()
    often = [cell for cell, chance in expected.items() if chance * runs >= 5]
    observed = [seen[cell] for cell in often]
    wanted = [expected[cell] * runs for cell in often]
    if (rest := runs - sum(wanted)) > 1e-6:
        observed.append(runs - sum(observed))
        wanted.append(rest)
    return float(stats.chisquare(observed, wanted).pvalue)


def always_accepted(draft: Draft, logits: FloatArray, sampling: Sampling, rng: np.random.Generator) -> Verdict:
    """By first children down to a leaf, whatever the target says."""
    path: list[int] = []
    while below := _children(draft, path):
        path.append(below[0])
    return Verdict(tuple(path), draw(probabilities(_row(logits, path), sampling), rng))


def by_their_own_coins(draft: Draft, logits: FloatArray, sampling: Sampling, rng: np.random.Generator) -> Verdict:
    """Each child is accepted with p(x) by itself; after the last one p is drawn from, with all of them in it. The
    faintest of the faults."""
    path: list[int] = []
    while True:
        p = probabilities(_row(logits, path), sampling)
        node = next((i for i in _children(draft, path) if rng.random() < p[draft.token_ids[i]]), None)
        if node is None:
            return Verdict(tuple(path), draw(p, rng))
        path.append(node)


def _children(draft: Draft, path: list[int]) -> list[int]:
    above = path[-1] if path else -1
    return [i for i, parent in enumerate(draft.parents) if parent == above]


def _row(logits: FloatArray, path: list[int]) -> FloatArray:
    row: FloatArray = logits[path[-1] + 1 if path else 0]
    return row
