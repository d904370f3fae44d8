"""A drafter that is always wrong and takes 3 ms a call costs 5 % at most, by a clock that knows what passes cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ghostdraft.completion import decode
from ghostdraft.completion.decode import Decoder
from ghostdraft.drafting import growing
from ghostdraft.drafting.draft_length import DraftLength
from ghostdraft.drafting.growing import GrowingDrafter
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import Draft, Drafter, Verdict
from ghostdraft.models.costs import Costs
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import FloatArray, IntArray, Pass
from tests.fakes import FakeClock, FakeDrafter, FakeModel, Never, Tokens, hashed_logits

VOCAB, TOKENS, CALL = 50, 512, 0.003
LOGITS = hashed_logits(VOCAB, memory=8)


def costs(one: float) -> Costs:
    """Of passes whose rows cost what they cost on small machines."""
    return Costs(0, ((1, one), (9, 1.4 * one), (33, 3.0 * one)), ((1, one), (33, 2.0 * one)))


class TimedModel(FakeModel):
    """Takes what `costs` say, `load` times over."""

    def __init__(self, clock: FakeClock, costs: Costs, load: float) -> None:
        super().__init__(LOGITS, VOCAB)
        self._clock, self._costs, self._load = clock, costs, load

    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        self._clock.now += self._load * self._costs.verify_seconds(len(token_ids))
        return super().forward(token_ids, logit_rows, parents)


def wrong(tokens: Tokens) -> int:
    return (int(LOGITS(tokens).argmax()) + 1) % VOCAB


class Liar:
    """A `Guesser` that is sure of what is wrong."""

    name = "liar"
    vocabulary = np.arange(VOCAB, dtype=np.int32)

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._text: Tokens = ()

    def begin(self, token_ids: Sequence[int]) -> None:
        self._text = tuple(token_ids)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def follow(self) -> FloatArray:
        return self._lies(1)

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:  # noqa: ARG002
        return self._lies(fresh)

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._text = (*self._text, *(draft.token_ids[i] for i in verdict.accepted), verdict.next_token)

    def _lies(self, count: int) -> FloatArray:
        self._clock.now += CALL
        logits = np.zeros((count, VOCAB), np.float32)
        logits[:, wrong(self._text)] = 12.0
        return logits


def planned(clock: FakeClock, plan: Callable[[Tokens, int], Draft]) -> Drafter:
    def slowly(tokens: Tokens, most: int) -> Draft:
        clock.now += CALL
        return plan(tokens, most)

    return FakeDrafter(slowly)


def a_line(tokens: Tokens, most: int) -> Draft:
    count = min(most, 12)
    return Draft.line([wrong(tokens)] * count, chances=[0.95 ** (i + 1) for i in range(count)])


def without_chances(tokens: Tokens, most: int) -> Draft:
    return Draft.line([wrong(tokens)] * min(most, 12))


def a_tree(tokens: Tokens, most: int) -> Draft:
    right = int(LOGITS(tokens).argmax())
    others = [token for token in range(VOCAB) if token != right][: min(most, 30)]
    return Draft(tuple(others), (-1,) * len(others), chances=(1 / 31,) * len(others))


HOSTILE: dict[str, Callable[[FakeClock], Drafter]] = {
    "line": lambda clock: planned(clock, a_line),
    "without chances": lambda clock: planned(clock, without_chances),
    "tree": lambda clock: planned(clock, a_tree),
    "model": lambda clock: GrowingDrafter("model", Liar(clock)),
    "hybrid": lambda clock: GrowingDrafter("hybrid", Liar(clock), [NgramDrafter()]),
}


def seconds(make: Callable[[FakeClock], Drafter], one: float, load: float) -> float:
    with pytest.MonkeyPatch.context() as patch:
        clock = FakeClock()
        patch.setattr(decode, "time", clock)
        patch.setattr(growing, "time", clock)
        runner = Decoder(TimedModel(clock, costs(one), load), make(clock), Sampling.GREEDY, costs(one))
        assert list(runner.read(range(40), (), Never()))
        started = clock.now
        list(runner.run(range(40), (), TOKENS, (), Never()))
        return clock.now - started


@pytest.mark.parametrize("load", [1.0, 3.0])
@pytest.mark.parametrize("one", [0.004, 0.02, 0.1])
@pytest.mark.parametrize("kind", HOSTILE)
def test_it_costs_little(kind: str, one: float, load: float) -> None:
    plain = seconds(lambda _: NoDrafter(), one, load)
    assert plain == pytest.approx(TOKENS * one * load)
    assert seconds(HOSTILE[kind], one, load) <= 1.05 * plain


@pytest.mark.parametrize("kind", ["line", "without chances", "tree"])
def test_without_measures_against_it_it_would_cost_more(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DraftLength, "asks", lambda _: True)
    assert seconds(HOSTILE[kind], 0.004, 1.0) > 1.05 * TOKENS * 0.004
