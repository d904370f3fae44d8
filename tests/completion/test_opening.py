"""Decoding under an opening: only what it allows, with the model's own odds among that."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.types import Verify
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import ANYTHING, Draft, Drafter, Opening
from ghostdraft.models.sampling import Sampling, probabilities
from tests.fakes import FLAT, Allowing, FakeDrafter, FakeModel, Never, Tokens, hashed_logits

VOCAB = 40
PROMPT = (1, 2, 3)


def written(opening: Opening, drafter: Drafter, sampling: Sampling = Sampling.GREEDY, most: int = 12) -> Tokens:
    decoder = Decoder(FakeModel(hashed_logits(VOCAB), VOCAB), drafter, sampling, FLAT)
    steps = decoder.run(PROMPT, (), most, (), Never(), opening=opening)
    return tuple(token for step in steps if isinstance(step, Verify) for token in step.token_ids)


@pytest.mark.parametrize("drafter", [NoDrafter(), NgramDrafter()])
def test_it_holds_for_its_tokens_and_no_longer(drafter: Drafter) -> None:
    tokens = written(Allowing({7, 8}, {9}), drafter)
    assert tokens[0] in (7, 8)
    assert tokens[1] == 9
    assert len(tokens) == 12
    continued = Decoder(FakeModel(hashed_logits(VOCAB), VOCAB), NoDrafter(), Sampling.GREEDY)
    steps = continued.run((*PROMPT, *tokens[:2]), (), 10, (), Never())
    assert tokens[2:] == tuple(token for step in steps for token in step.token_ids if isinstance(step, Verify))


def test_the_best_allowed_token_is_taken() -> None:
    logits = hashed_logits(VOCAB)(PROMPT)
    allowed = [4, 11, 29]
    assert written(Allowing(allowed), NoDrafter())[0] == max(allowed, key=lambda token: logits[token])


def test_an_opening_that_allows_nothing_is_void() -> None:
    assert written(Allowing(()), NoDrafter()) == written(ANYTHING, NoDrafter())


def test_sampled_tokens_have_the_models_own_odds_among_those_allowed() -> None:
    allowed, runs = [4, 11, 29], 600
    p = probabilities(hashed_logits(VOCAB)(PROMPT), Sampling(temperature=1.0))[allowed]
    drawn = [written(Allowing(allowed), NoDrafter(), Sampling(1.0, seed=seed), 1)[0] for seed in range(runs)]
    counts = [drawn.count(token) for token in allowed]
    assert stats.chisquare(counts, runs * p / p.sum()).pvalue > 1e-4


def test_an_unlikely_token_is_found_where_no_likely_one_is_allowed() -> None:
    vocab = 2048
    logits = np.arange(vocab, dtype=np.float32)
    decoder = Decoder(FakeModel(lambda _: logits, vocab), NoDrafter(), Sampling.GREEDY)
    steps = list(decoder.run(PROMPT, (), 1, (), Never(), opening=Allowing({3, 5})))
    assert steps[-1].token_ids == (5,)


@given(
    st.lists(st.sets(st.integers(0, VOCAB - 1), min_size=1, max_size=4), max_size=3),
    st.sampled_from([Sampling.GREEDY, Sampling(1.0, seed=3)]),
    st.randoms(use_true_random=False),
)
def test_drafts_change_nothing(places: list[set[int]], sampling: Sampling, rng: random.Random) -> None:
    """Trees around the right tokens, with others that fit and that do not."""
    right = written(Lenient(*places), NoDrafter(), sampling)

    def plan(tokens: Tokens, most: int) -> Draft:
        done, size = len(tokens) - len(PROMPT), rng.randint(0, min(most, 8))
        parents = tuple(rng.randint(-1, i - 1) for i in range(size))
        depths: list[int] = []
        for parent in parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        drafted = [right[done + depth] if done + depth < len(right) else 0 for depth in depths]
        return Draft(tuple(token if rng.random() < 0.7 else rng.randrange(VOCAB) for token in drafted), parents)

    assert written(Lenient(*places), FakeDrafter(plan), sampling) == right


class Lenient(Allowing):
    """Asked about what does not fit too."""

    def after(self, token_id: int) -> Lenient:  # noqa: ARG002
        return Lenient(*self.places[1:])


def test_a_draft_within_an_opening_is_accepted() -> None:
    right = written(Allowing({7, 8}, {9}), NoDrafter())
    drafter = FakeDrafter(lambda tokens, most: Draft.line(right[len(tokens) - len(PROMPT) :][:most]))
    decoder = Decoder(FakeModel(hashed_logits(VOCAB), VOCAB), drafter, Sampling.GREEDY, FLAT)
    steps = list(decoder.run(PROMPT, (), 6, (), Never(), opening=Allowing({7, 8}, {9})))
    assert [(step.drafted, step.accepted) for step in steps if isinstance(step, Verify)] == [(5, 5)]
