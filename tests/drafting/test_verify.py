"""The accept rules one by one: paths and greedy choices exactly, sampled ones against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.drafting.verify import verify
from ghostdraft.models.sampling import Probabilities, Sampling, draw, probabilities
from ghostdraft.models.types import FloatArray

VOCAB = 4
SAMPLED = Sampling(temperature=1.0)
RUNS = 4000


@st.composite
def trees(draw_from: st.DrawFn, most: int = 8) -> Draft:
    size = draw_from(st.integers(0, most))
    parents = tuple(draw_from(st.integers(-1, i - 1)) for i in range(size))
    tokens = tuple(draw_from(st.integers(0, VOCAB - 1)) for _ in range(size))
    return Draft(tokens, parents)


def logits_for(size: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(scale=2, size=(size + 1, VOCAB)).astype(np.float32)


def assert_is_path(draft: Draft, verdict: Verdict) -> None:
    above = -1
    for node in verdict.accepted:
        assert draft.parents[node] == above
        above = node


@given(trees(), st.integers(0, 10_000))
def test_greedy_follows_the_best_token_as_far_as_it_was_drafted(draft: Draft, seed: int) -> None:
    logits = logits_for(len(draft), seed)
    verdict = verify(draft, logits, Sampling.GREEDY, np.random.default_rng(0))
    assert_is_path(draft, verdict)
    rows = [0, *(i + 1 for i in verdict.accepted)]
    said = [draft.token_ids[i] for i in verdict.accepted] + [verdict.next_token]
    assert said == [int(logits[row].argmax()) for row in rows]
    last = verdict.accepted[-1] if verdict.accepted else -1
    children = [draft.token_ids[i] for i, parent in enumerate(draft.parents) if parent == last]
    assert verdict.next_token not in children


@given(trees(), st.integers(0, 10_000))
def test_a_drawn_token_that_was_drafted_is_accepted(draft: Draft, seed: int) -> None:
    logits = logits_for(len(draft), seed)
    verdict = verify(draft, logits, SAMPLED, np.random.default_rng(seed))
    assert_is_path(draft, verdict)
    rng = np.random.default_rng(seed)
    said = [draft.token_ids[i] for i in verdict.accepted] + [verdict.next_token]
    assert said == [draw(probabilities(logits[row], SAMPLED), rng) for row in (0, *(i + 1 for i in verdict.accepted))]


def test_of_twin_children_the_first_is_taken() -> None:
    draft = Draft((2, 2, 1), (-1, -1, 0))
    logits = np.eye(VOCAB, dtype=np.float32)[[2, 1, 3, 3]]
    assert verify(draft, logits, Sampling.GREEDY, np.random.default_rng(0)) == Verdict((0, 2), 3)


def test_greedy_needs_no_finite_row_beyond_the_path() -> None:
    logits = np.full((3, VOCAB), np.nan, np.float32)
    logits[0] = [0, 0, 0, 1]
    assert verify(Draft.line((1, 2)), logits, Sampling.GREEDY, np.random.default_rng(0)) == Verdict((), 3)


def test_an_empty_draft_gives_one_token_by_every_rule() -> None:
    logits = np.array([[0, 50, 0, 0]], np.float32)
    for sampling in (Sampling.GREEDY, SAMPLED):
        assert verify(Draft(), logits, sampling, np.random.default_rng(0)) == Verdict((), 1)


def test_greedy_ignores_what_a_line_was_drawn_from() -> None:
    logits = np.array([[0, 1, 0, 0], [1, 0, 0, 0]], np.float32)
    draft = Draft.line((1,), np.array([[1.0, 0.0, 0.0, 0.0]]))
    assert verify(draft, logits, Sampling.GREEDY, np.random.default_rng(0)) == Verdict((0,), 0)


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_a_line_drawn_from_the_target_itself_is_always_accepted(seed: int, length: int) -> None:
    logits = logits_for(length, seed)
    rng = np.random.default_rng(seed)
    q = probabilities(logits[:-1], SAMPLED)
    draft = Draft.line([draw(row, rng) for row in q], q)
    assert len(verify(draft, logits, SAMPLED, rng).accepted) == length


def test_acceptance_is_the_overlap_of_p_and_q_and_what_comes_out_is_p() -> None:
    """Leviathan et al. 2023: P(accept) = sum min(p, q); the first token is distributed as p."""
    logits = logits_for(1, 3)
    p = probabilities(logits[0], SAMPLED)
    q = np.array([0.1, 0.2, 0.3, 0.4])
    accepted, tokens = first_tokens(logits, q, q)
    assert accepted / RUNS == pytest.approx(np.minimum(p, q).sum(), abs=0.03)
    assert stats.chisquare(tokens, p * RUNS).pvalue > 0.01


def test_a_wrong_q_is_seen() -> None:
    """The negative control of the test above: drawn from one q, another one claimed."""
    logits = logits_for(1, 3)
    p = probabilities(logits[0], SAMPLED)
    drawn_from = np.array([0.1, 0.2, 0.3, 0.4])
    _, tokens = first_tokens(logits, drawn_from, drawn_from[::-1].copy())
    assert stats.chisquare(tokens, p * RUNS).pvalue < 1e-6


def first_tokens(logits: FloatArray, drawn_from: Probabilities, claimed: Probabilities) -> tuple[int, list[int]]:
    rng = np.random.default_rng(0)
    accepted, tokens = 0, [0] * VOCAB
    for _ in range(RUNS):
        token = draw(drawn_from, rng)
        verdict = verify(Draft.line((token,), claimed[None]), logits, SAMPLED, rng)
        accepted += len(verdict.accepted)
        tokens[token if verdict.accepted else verdict.next_token] += 1
    return accepted, tokens


def test_a_token_that_the_target_cannot_say_is_never_accepted() -> None:
    logits = np.array([[-np.inf, 0.0, 0.0, -np.inf], [0.0, 0.0, 0.0, 0.0]], np.float32)
    q = np.array([[1.0, 0.0, 0.0, 0.0]])
    for seed in range(50):
        verdict = verify(Draft.line((0,), q), logits, SAMPLED, np.random.default_rng(seed))
        assert verdict.accepted == ()
        assert verdict.next_token in (1, 2)


def test_what_is_rejected_is_not_drawn_again_where_q_covered_it() -> None:
    """After a rejection only tokens with p > q can come; here that is token 1 alone."""
    logits = np.log(np.array([[0.5, 0.5], [0.5, 0.5]], np.float32))
    q = np.array([[0.9, 0.1]])
    verdicts = [verify(Draft.line((0,), q), logits, SAMPLED, np.random.default_rng(seed)) for seed in range(200)]
    rejected = [verdict for verdict in verdicts if not verdict.accepted]
    assert 50 < len(rejected) < 130  # 1 - 0.5 / 0.9
    assert {verdict.next_token for verdict in rejected} == {1}
