"""Neither what drafters learned nor the clock is seen in the output, and the same seed gives it again."""

from __future__ import annotations

import random

import pytest

from ghostdraft.completion import decode
from ghostdraft.completion.types import Verify
from ghostdraft.drafting import growing
from ghostdraft.models.sampling import Sampling
from tests.drafting.lossless.cast import DRAFTERS, Cast, decoder, written
from tests.fakes import FakeClock, Never
from tests.models.small_models import tokens

SAMPLED = Sampling(0.8, top_k=20, top_p=0.9, seed=3)
PROMPTS = [tokens(30, 1) * 2, tokens(25, 2), [*tokens(30, 1), *tokens(40, 4)]]
LANGUAGES = ("python", "go", "python")


@pytest.fixture(autouse=True, scope="module")
def _timeless() -> None:
    """Not here: how much is drafted follows the clock."""


class WildClock(FakeClock):
    """Goes on by anything between a microsecond and a minute, each time that it is looked at."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def perf_counter(self) -> float:
        self.now += 10 ** self._random.uniform(-6, 1.8)
        return self.now


def outputs(cast: Cast, name: str, sampling: Sampling, clock: FakeClock, learned: bool = False) -> list[list[int]]:
    """Of all prompts, one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "time", clock)
        patch.setattr(growing, "time", clock)
        runner = decoder(cast, name, sampling)
        if learned:
            for seed in range(12):
                list(runner.run(tokens(20, seed) * 2, (), 20, (), Never(), language=LANGUAGES[seed % 2]))
        runs = [
            list(runner.run(prompt, (), 40, (), Never(), language=language))
            for prompt, language in zip(PROMPTS, LANGUAGES, strict=True)
        ]
    return [written(run) for run in runs]


@pytest.mark.parametrize("sampling", [Sampling.GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_the_output_is_the_same_again(name: str, sampling: Sampling, cast: Cast) -> None:
    expected = outputs(cast, "none", sampling, FakeClock())
    assert outputs(cast, name, sampling, WildClock(1)) == expected
    assert outputs(cast, name, sampling, WildClock(2), learned=True) == expected


def test_another_clock_drafts_otherwise(cast: Cast) -> None:
    """So the test above is about something."""
    drafts = set()
    for seed in range(4):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(growing, "time", WildClock(seed))
            patch.setattr(decode, "time", WildClock(seed))
            steps = decoder(cast, "knowing").run(PROMPTS[0], (), 40, (), Never())
            drafts.add(tuple(step.drafted for step in steps if isinstance(step, Verify)))
    assert len(drafts) > 1
