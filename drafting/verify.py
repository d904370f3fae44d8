"""The accept rules: which drafted tokens stand, and what the target says after them. Pure; no model inside.

Names: p is the target's distribution at a row, q the draft's, x a token. Row 0 of the logits follows the last token
that stands, row i + 1 follows the draft's token i. Whatever is drafted, the tokens that come out are distributed as
the target alone would have given them:

    greedy          walk from the root: x = argmax p; go on to the child x while there is one, else emit x.
    deterministic   the same walk with x drawn from p. Each x that comes out, accepted or emitted, was drawn from p
                    itself; so the rule is exact for any tree whose tokens were chosen without chance. For a line it
                    is the rule below with q(x) = 1.
    sampled line    accept x with min(1, p(x) / q(x)); at the first rejection draw from norm(max(p - q, 0));
                    after full acceptance draw one more from p.
                    Leviathan et al. 2023 (arXiv:2211.17192), algorithm 1; Chen et al. 2023 (arXiv:2302.01318).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.sampling import Probabilities, Sampling, best, draw, probabilities
from ghostdraft.models.types import FloatArray


def verify(draft: Draft, logits: FloatArray, sampling: Sampling, rng: np.random.Generator) -> Verdict:
    """`logits` [1 + len(draft), vocab] are the target's. The rule follows from the sampling and the draft's `probs`."""
    if sampling.greedy:
        return _walk(draft, lambda row: best(logits[row]))
    if draft.probs is None:
        return _walk(draft, lambda row: draw(probabilities(logits[row], sampling), rng))
    return _accept_sampled(draft, draft.probs, lambda row: probabilities(logits[row], sampling), rng)


def verify_greedy(draft: Draft, best_of: Callable[[int], int]) -> Verdict:
    """`best_of` a row of the logits, where somebody knows it without a look at all of them."""
    return _walk(draft, best_of)


def _walk(draft: Draft, choose: Callable[[int], int]) -> Verdict:
    """Follows the target's own choices down the tree, as far as they were drafted."""
    accepted: list[int] = []
    node: int | None = -1
    while node is not None:
        token = choose(node + 1)
        node = _child(draft, node, token)
        if node is not None:
            accepted.append(node)
    return Verdict(tuple(accepted), token)


def _child(draft: Draft, parent: int, token: int) -> int | None:
    """The first child of `parent` with this token. Children stand behind their parents."""
    for i in range(parent + 1, len(draft)):
        if draft.parents[i] == parent and draft.token_ids[i] == token:
            return i
    return None


def _accept_sampled(
    draft: Draft, q: Probabilities, p_of: Callable[[int], Probabilities], rng: np.random.Generator
) -> Verdict:
    """`q` [n, vocab]; the draft is a line."""
    for i, x in enumerate(draft.token_ids):
        p = p_of(i)
        if rng.random() * q[i, x] >= p[x]:
            return Verdict(tuple(range(i)), draw(_residual(p, q[i]), rng))
    return Verdict(tuple(range(len(draft))), draw(p_of(len(draft)), rng))


def _residual(p: Probabilities, q: Probabilities) -> Probabilities:
    """What p has beyond q; `draw` divides by the sum. Where rounding leaves nothing, p and q are the same."""
    rest = np.maximum(p - q, 0.0)
    return rest if rest.any() else p
