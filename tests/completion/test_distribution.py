"""Sampled output of the whole loop, rollback and bonus included, against the target's exact distribution.

Chi-square over the joint of three tokens, the expected counts by enumeration in float64 without a cache. Each known
way to get it wrong is tried too and must be seen: otherwise the test proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ghostdraft.completion import decode
from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.types import Verify
from ghostdraft.drafting import verify as rules
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import Draft, Drafter
from ghostdraft.models.sampling import Probabilities, Sampling, best
from tests import distribution
from tests.distribution import PASSED, SEEN, always_accepted, by_their_own_coins
from tests.fakes import FLAT, FakeDrafter, FakeModel, Never, Plan, TinyTransformer, Tokens, hashed_logits, sampled_line

VOCAB = 4
PROMPT = (1, 2, 1, 2, 3)
RUNS = 1200
PLAIN = Sampling(1.0)
MODEL = hashed_logits(VOCAB, seed=1)
OTHER = hashed_logits(VOCAB, seed=9, spread=1.0)
SAMPLINGS = [PLAIN, Sampling(0.7, top_k=3), Sampling(1.3, top_p=0.8), Sampling(0.9, top_k=3, top_p=0.9)]


def best_line(tokens: Tokens, most: int) -> Draft:
    line: list[int] = []
    while len(line) < min(most, 2):
        line.append(best(OTHER((*tokens, *line))))
    return Draft.line(line)


def bushy_tree(tokens: Tokens, most: int) -> Draft:
    """Two children of the root, two of the first of them; from the tokens before, without chance."""
    one, two = (best(sign * OTHER(tokens)) for sign in (1, -1))
    return Draft((one, two, two, one)[:most], (-1, -1, 0, 0)[:most])


def model_line(sampling: Sampling, seed: int = 0) -> Plan:
    return sampled_line(OTHER, sampling, np.random.default_rng(seed), length=2)


def drafters(sampling: Sampling) -> dict[str, Drafter]:
    return {
        "none": NoDrafter(),
        "ngram": NgramDrafter(),
        "line": FakeDrafter(best_line),
        "tree": FakeDrafter(bushy_tree),
        "sampled line": FakeDrafter(model_line(sampling)),
    }


def p_value(
    drafter: Drafter, sampling: Sampling, model: FakeModel | TinyTransformer | None = None, runs: int = RUNS
) -> float:
    model = model or FakeModel(MODEL, VOCAB)
    return distribution.p_value(Decoder(model, drafter, sampling, FLAT), model.logits, PROMPT, runs)


CASES = [
    *((name, SAMPLINGS[0]) for name in ("none", "ngram", "line")),
    *((name, sampling) for name in ("tree", "sampled line") for sampling in SAMPLINGS),
]


@pytest.mark.parametrize(("name", "sampling"), CASES, ids=str)
def test_the_output_is_distributed_as_the_targets_own(name: str, sampling: Sampling) -> None:
    assert p_value(drafters(sampling)[name], sampling) > PASSED


@pytest.mark.parametrize("name", ["tree", "sampled line"])
def test_it_is_so_with_a_cache_of_keys_and_values(name: str) -> None:
    sampling = Sampling(0.9, top_k=3)
    assert p_value(drafters(sampling)[name], sampling, TinyTransformer(VOCAB)) > PASSED


@pytest.mark.parametrize("name", ["none", "ngram", "line", "tree", "sampled line"])
def test_greedy_output_is_the_targets_own(name: str) -> None:
    model = TinyTransformer(VOCAB)
    steps = Decoder(model, drafters(PLAIN)[name], Sampling.GREEDY, FLAT).run(PROMPT, (), 12, (), Never())
    tokens = list(PROMPT)
    while len(tokens) < len(PROMPT) + 12:
        tokens.append(best(model.logits(tuple(tokens))))
    assert [token for step in steps if isinstance(step, Verify) for token in step.token_ids] == tokens[len(PROMPT) :]


def test_a_model_as_its_own_draft_is_always_accepted() -> None:
    logits_of = hashed_logits(VOCAB)
    for sampling in SAMPLINGS:
        own = FakeDrafter(sampled_line(logits_of, sampling, np.random.default_rng(0), length=4))
        decoder = Decoder(FakeModel(logits_of, VOCAB), own, sampling, FLAT)
        steps = [step for step in decoder.run(PROMPT, (), 500, (), Never()) if isinstance(step, Verify)]
        assert all(step.accepted == step.drafted for step in steps)
        assert sum(step.accepted for step in steps) == 400


# The faults, each seen in the field.


def test_probabilities_of_other_logits_than_the_draft_was_drawn_from_are_seen() -> None:
    draw_line = model_line(PLAIN)

    def plan(tokens: Tokens, most: int) -> Draft:
        draft = draw_line(tokens, most)
        return Draft.line(draft.token_ids, None if draft.probs is None else draft.probs**2)

    assert p_value(FakeDrafter(plan), PLAIN) < SEEN


def test_dropping_a_drawn_token_for_its_low_probability_is_seen() -> None:
    draw_line = model_line(PLAIN)

    def plan(tokens: Tokens, most: int) -> Draft:
        draft = draw_line(tokens, min(most, 1))
        likely = draft.probs is not None and draft.probs[0, draft.token_ids[0]] > 0.4
        return draft if likely else Draft()

    assert p_value(FakeDrafter(plan), PLAIN) < SEEN


def test_drawn_tokens_taken_for_fixed_ones_are_seen_in_the_distribution_of_fixed_drafts_only() -> None:
    """A line without its probabilities is judged as a fixed one, which is exact whatever drew it."""
    draw_line = model_line(PLAIN)
    assert p_value(FakeDrafter(lambda tokens, most: Draft.line(draw_line(tokens, most).token_ids)), PLAIN) > PASSED


def not_subtracted(p: Probabilities, q: Probabilities) -> Probabilities:  # noqa: ARG001
    return p


def softmaxed(p: Probabilities, q: Probabilities) -> Probabilities:
    return np.exp(np.maximum(p - q, 0.0))


@pytest.mark.parametrize("residual", [not_subtracted, softmaxed])
def test_a_wrong_residual_is_seen(
    residual: Callable[[Probabilities, Probabilities], Probabilities], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "_residual", residual)
    assert p_value(drafters(PLAIN)["sampled line"], PLAIN) < SEEN


@pytest.mark.parametrize("name", ["ngram", "line", "tree"])
def test_fixed_drafts_that_are_always_accepted_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "verify", always_accepted)
    assert p_value(drafters(PLAIN)[name], PLAIN) < SEEN


@pytest.mark.parametrize("name", ["ngram", "line", "tree"])
def test_a_second_chance_for_a_rejected_fixed_token_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "verify", by_their_own_coins)
    assert p_value(drafters(PLAIN)[name], PLAIN, runs=3 * RUNS) < SEEN


@pytest.mark.parametrize("name", ["tree", "sampled line"])
def test_a_cache_that_is_one_row_behind_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of rejected tokens stay where those of accepted ones belong."""
    keep = TinyTransformer._keep

    def shifted(model: TinyTransformer, path: Tokens) -> None:
        model._new = np.roll(model._new, 1, axis=2)
        keep(model, path)

    monkeypatch.setattr(TinyTransformer, "_keep", shifted)
    assert p_value(drafters(PLAIN)[name], PLAIN, TinyTransformer(VOCAB)) < SEEN
