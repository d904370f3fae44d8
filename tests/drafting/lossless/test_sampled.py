"""Sampled output with each drafter is distributed as the target's own. More than that, since no drafter draws its
tokens: it is what the same seed gives without a draft."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ghostdraft.completion import decode
from ghostdraft.drafting import DrafterName
from ghostdraft.models.sampling import Sampling
from tests.distribution import PASSED, SEEN, always_accepted, by_their_own_coins, p_value
from tests.drafting.lossless.cast import DRAFTERS, GROWING, ITSELF, WHOLE, Cast, decoder, drafted, steps_of, written
from tests.drafting.lossless.test_greedy import EDITS, Writer

PROMPT = (1, 2, 1, 2, 3)
RUNS = 800
PLAIN = Sampling(1.0)
SAMPLINGS = [PLAIN, Sampling(0.7, top_k=3), Sampling(1.3, top_p=0.8), Sampling(0.9, top_k=3, top_p=0.9)]
WRONG = (ITSELF, WHOLE, "hybrid")


def chance(cast: Cast, name: str, sampling: Sampling, runs: int = RUNS) -> float:
    return p_value(decoder(cast, name, sampling), cast.reference.logits, PROMPT, runs)


@pytest.mark.parametrize("name", DRAFTERS)
def test_it_is_distributed_as_the_targets_own(name: str, few_words: Cast) -> None:
    assert chance(few_words, name, SAMPLINGS[-1]) > PASSED


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("name", DRAFTERS)
def test_it_is_so_in_many_more_runs_with_each_way_to_sample(name: str, sampling: Sampling, few_words: Cast) -> None:
    assert chance(few_words, name, sampling, 5000) > PASSED


@pytest.mark.parametrize("name", WRONG)
def test_drafts_that_are_always_accepted_are_seen(name: str, few_words: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "verify", always_accepted)
    assert chance(few_words, name, PLAIN) < SEEN


@pytest.mark.parametrize("name", WRONG)
def test_a_second_chance_for_rejected_tokens_is_seen(
    name: str, few_words: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "verify", by_their_own_coins)
    assert chance(few_words, name, PLAIN, 3 * RUNS) < SEEN


@pytest.mark.parametrize("name", GROWING)
def test_no_drafter_draws_its_tokens(name: str, cast: Cast) -> None:
    """Those of one that does must come with their probabilities, and be judged by another rule."""
    runner = decoder(cast, name)
    steps_of(runner, range(20), 8)
    assert runner.drafter.propose(8).probs is None


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("name", [name for name in DRAFTERS if name != DrafterName.NONE])
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(EDITS, min_size=1, max_size=4), sampling=st.sampled_from(SAMPLINGS), seed=st.integers(0, 99))
def test_a_seed_gives_what_it_gives_without_a_drafter(
    name: str, cast: Cast, edits: list[tuple[str, int, int]], sampling: Sampling, seed: int
) -> None:
    seeded = Sampling(sampling.temperature, sampling.top_k, sampling.top_p, seed)
    runner, plain, writer = decoder(cast, name, seeded), decoder(cast, "none", seeded), Writer()
    for edit in edits:
        prompt = list(writer.does(*edit))
        plain.forget()
        writer.suggested = written(steps_of(runner, prompt))
        assert writer.suggested == written(steps_of(plain, prompt))


@pytest.mark.parametrize("name", [ITSELF, WHOLE])
def test_where_the_draft_is_the_target_most_of_it_is_accepted(name: str, few_words: Cast) -> None:
    """The tests above are about drafts that are accepted, too."""
    runner = decoder(few_words, name, PLAIN)
    drafts, accepted = drafted([step for _ in range(20) for step in steps_of(runner, PROMPT, 20)])
    assert drafts > accepted > 100
