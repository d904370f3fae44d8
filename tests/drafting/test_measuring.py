"""Measuring a model's passes: what comes out, that nothing stays, and that it goes on where it was left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ghostdraft.drafting import measuring
from ghostdraft.drafting.measuring import CONTEXT, PROBES, ROUNDS, Measuring
from ghostdraft.models.costs import Costs
from ghostdraft.models.types import FloatArray, Interrupted
from tests.fakes import FakeCosts, FakeModel, Tokens, next_token_logits

VOCAB = 11


class Clock:
    """Moves only when a pass runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedModel(FakeModel):
    """A pass takes what `seconds` makes of its rows; `interrupted` passes end early, by their number."""

    def __init__(self, clock: Clock, seconds: Callable[[int], float], max_rows: int = 64, context: int = 4096) -> None:
        super().__init__(next_token_logits(VOCAB, lambda _: 1), VOCAB, context, max_rows)
        self.clock, self.seconds = clock, seconds
        self.interrupted: set[int] = set()
        self.read: list[Tokens] = []  # of each pass

    def _rows(self, tokens: Tokens, paths: list[Tokens]) -> list[FloatArray]:
        self.read.append(tokens)
        if len(self.passes) in self.interrupted:
            raise Interrupted
        self.clock.now += self.seconds(len(tokens))
        return super()._rows(tokens, paths)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measuring.time, "perf_counter", clock)
    return clock


def line(rows: int) -> float:
    return 0.010 + 0.001 * rows


def never() -> bool:
    return False


def read(model: FakeModel, tokens: Sequence[int]) -> None:
    for token in tokens:
        model.forward([token])
        model.keep([0])


def check(costs: Costs | None) -> None:
    assert costs is not None
    assert costs.context == CONTEXT
    assert [costs.verify_seconds(rows) for rows in (1, 5, 9, 32)] == pytest.approx(
        [line(1), line(5), line(9), line(32)]
    )
    assert costs.prefill_rate == pytest.approx(64 / line(64))


def test_it_finds_what_passes_cost_and_leaves_the_cache_as_it_was(clock: Clock) -> None:
    model = TimedModel(clock, line)
    read(model, (1, 2, 3))
    check(Measuring(model).go_on(never))
    assert model.kept == (1, 2, 3)
    assert clock.now < 10


def test_what_is_known_is_measured_anew_only_where_that_is_wished(clock: Clock) -> None:
    model, store = TimedModel(clock, line), FakeCosts()
    measuring.measure_once(model, store)
    check(store.kept)
    known = store.kept
    model.seconds = lambda rows: 2 * line(rows)
    measuring.measure_once(model, store)
    assert store.kept is known
    measuring.measure_now(model, store)
    assert store.kept.verify_seconds(1) == pytest.approx(2 * line(1))


def test_behind_a_long_text_nothing_is_read_first(clock: Clock) -> None:
    model = TimedModel(clock, line)
    model.kept, model.length = (1,) * 600, 600
    costs = Measuring(model).go_on(never)
    assert costs is not None
    assert costs.context == 600
    assert len(model.passes) == ROUNDS * len(PROBES)


@pytest.mark.parametrize("max_rows", [64, 512])
def test_a_cache_that_has_no_room_for_the_widest_pass_is_left_alone(clock: Clock, max_rows: int) -> None:
    model = TimedModel(clock, line, max_rows, context=1000)
    model.kept, model.length = (1,) * 937, 937
    measuring = Measuring(model)
    assert measuring.go_on(never) is None
    assert model.passes == []
    model.kept, model.length = (1,) * 936, 936
    costs = measuring.go_on(never)
    assert costs is not None
    assert costs.context == 936


@pytest.mark.parametrize("context", [2, 40, 300])
def test_a_small_model_is_measured_as_far_as_it_goes(clock: Clock, context: int) -> None:
    costs = Measuring(TimedModel(clock, line, max_rows=16, context=context)).go_on(never)
    assert costs is not None
    assert costs.verify[-1][0] == min(16, context // 2)


def test_halted_before_any_pass_it_goes_on_there(clock: Clock) -> None:
    model = TimedModel(clock, line)
    read(model, (1, 2, 3))
    measurement = Measuring(model)
    costs = None
    turns = 0
    while costs is None:
        left = 10  # a few more than it takes to fill the cache
        turns += 1

        def halted() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        costs = measurement.go_on(halted)
        assert model.kept == (1, 2, 3)
    check(costs)
    assert turns > 10


def test_an_interrupted_pass_is_taken_again(clock: Clock) -> None:
    model = TimedModel(clock, line)
    model.interrupted = {3, 20, 21, 40}
    measurement = Measuring(model)
    outcomes = [measurement.go_on(never) for _ in range(5)]
    assert outcomes[:4] == [None] * 4
    check(outcomes[4])
    assert model.length == 0


def test_no_pass_could_go_on_where_an_interrupted_one_ended(clock: Clock) -> None:
    model = TimedModel(clock, line)
    model.kept, model.length = (1,) * 600, 600
    model.interrupted = {5}
    measurement = Measuring(model)
    assert measurement.go_on(never) is None
    assert measurement.go_on(never) is not None
    assert len(model.read[5]) == len(model.read[4])
    assert model.read[5] != model.read[4]


def test_a_slow_machine_is_done_in_time(clock: Clock) -> None:
    model = TimedModel(clock, lambda rows: 0.2 + 0.01 * rows)
    costs = Measuring(model).go_on(never)
    assert costs is not None
    assert clock.now < 10.5
    assert 64 <= costs.context < CONTEXT
    assert costs.verify_seconds(9) == pytest.approx(0.29)


def test_a_machine_that_is_disturbed_now_and_then_is_measured_all_the_same(clock: Clock) -> None:
    model = TimedModel(clock, lambda rows: line(rows) * (3 if len(model.passes) % 7 == 0 else 1))
    check(Measuring(model).go_on(never))
