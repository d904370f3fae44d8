"""The decode loop against one-token decoding, with drafters good, bad and hostile; the cache against what stands."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghostdraft.completion.decode import LEAST_ROWS, Decoder, PrefillPace, count
from ghostdraft.completion.types import Cancel, DecodeStats, Prefill, Step, Verify
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import Draft, Drafter
from ghostdraft.models.costs import GUESS, Costs
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import FloatArray, Interrupted
from tests.fakes import (
    FLAT,
    CancelledAfter,
    FakeDrafter,
    FakeModel,
    Never,
    Plan,
    TinyTransformer,
    Tokens,
    hashed_logits,
    next_token_logits,
)

VOCAB = 5
PROMPT = (1, 2, 3)
LOGITS = hashed_logits(VOCAB)
SAMPLED = Sampling(temperature=1.0, seed=7)
SAMPLINGS = st.sampled_from([Sampling.GREEDY, SAMPLED, Sampling(0.8, top_k=3, top_p=0.9)])


def decoder(drafter: Drafter, sampling: Sampling = Sampling.GREEDY, **limits: int) -> Decoder:
    return Decoder(FakeModel(LOGITS, VOCAB, **limits), drafter, sampling, FLAT)


def warm(drafter: Drafter, **limits: int) -> Decoder:
    """One that has read all of PROMPT but its last token."""
    reader = decoder(drafter, **limits)
    assert list(reader.read(PROMPT, (), Never()))
    return reader


def read(steps: Sequence[Step]) -> int:
    """How many tokens of prompts."""
    return sum(step.riding if isinstance(step, Verify) else len(step.token_ids) for step in steps)


def steps_of(
    decoder: Decoder,
    prompt: Sequence[int] = PROMPT,
    most: int = 20,
    stop: Sequence[int] = (),
    cancel: Cancel | None = None,
) -> list[Step]:
    return list(decoder.run(prompt, (), most, stop, cancel or Never()))


def generated(steps: Sequence[Step]) -> list[int]:
    return [token for step in steps if isinstance(step, Verify) for token in step.token_ids]


def drafts(steps: Sequence[Step]) -> list[int]:
    """How many tokens each step drafted."""
    return [step.drafted for step in steps if isinstance(step, Verify)]


def one_by_one(prompt: Sequence[int], most: int, stop: Sequence[int] = ()) -> list[int]:
    """Greedy decoding as it is defined, without any machinery."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + most and not (len(tokens) > len(prompt) and tokens[-1] in stop):
        tokens.append(int(LOGITS(tuple(tokens)).argmax()))
    return tokens[len(prompt) :]


def kept(decoder: Decoder) -> Tokens:
    assert isinstance(decoder.model, FakeModel)
    assert len(decoder.model.kept) == decoder.model.length
    return decoder.model.kept


def oracle(tokens: Tokens, most: int) -> Draft:
    return Draft.line(one_by_one(tokens, most))


def oracle_that_errs_at(depth: int) -> Plan:
    def plan(tokens: Tokens, most: int) -> Draft:
        line = one_by_one(tokens, most)
        return Draft.line([*line[:depth], *((token + 1) % VOCAB for token in line[depth:])])

    return plan


def positions(tokens: Tokens, most: int) -> Draft:
    return Draft.line(range(len(tokens), len(tokens) + min(most, 7)))


@st.composite
def random_plans(draw_from: st.DrawFn) -> Plan:
    """Trees without sense, of any size up to what is allowed; some grown around the right tokens."""
    rng = draw_from(st.randoms(use_true_random=False))

    def plan(tokens: Tokens, most: int) -> Draft:
        size = rng.randint(0, min(most, 10))
        parents = tuple(rng.randint(-1, i - 1) for i in range(size))
        drafted: list[int] = []
        for parent in parents:
            path: list[int] = []
            while parent >= 0:
                path.insert(0, drafted[parent])
                parent = parents[parent]
            right = int(LOGITS((*tokens, *path)).argmax())
            drafted.append(right if rng.random() < 0.6 else rng.randrange(VOCAB))
        return Draft(tuple(drafted), parents)

    return plan


@given(random_plans(), st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=50), st.integers(0, 30))
def test_any_drafter_gives_the_output_of_one_token_decoding(plan: Plan, prompt: list[int], most: int) -> None:
    drafted = decoder(FakeDrafter(plan), max_rows=8)
    assert generated(steps_of(drafted, prompt, most)) == one_by_one(prompt, most)


@given(random_plans(), st.sets(st.integers(0, VOCAB - 1), max_size=2), st.integers(1, 30))
def test_at_every_step_the_cache_holds_all_but_the_last_token(plan: Plan, stop: set[int], most: int) -> None:
    drafter = FakeDrafter(plan)
    drafted = decoder(drafter)
    written = list(PROMPT)
    for step in drafted.run(PROMPT, (), most, stop, Never()):
        if isinstance(step, Verify):
            written.extend(step.token_ids)
            assert kept(drafted) == tuple(written[:-1])
            assert drafter.tokens == tuple(written)
            assert step.accepted == len(step.token_ids) - 1 <= step.drafted
            assert not set(step.token_ids[:-1]) & stop
    assert written[len(PROMPT) :] == one_by_one(PROMPT, most, tuple(stop))


@given(random_plans(), SAMPLINGS)
def test_a_seed_reproduces_and_another_drafter_of_fixed_tokens_changes_nothing(plan: Plan, sampling: Sampling) -> None:
    """Each token that comes out is the next draw from p, drafted or not, so even sampled output is the same."""
    plain = generated(steps_of(decoder(NoDrafter(), sampling)))
    assert generated(steps_of(decoder(FakeDrafter(plan), sampling))) == plain
    assert generated(steps_of(decoder(NgramDrafter(), sampling))) == plain


def test_seeds_differ() -> None:
    outputs = {tuple(generated(steps_of(decoder(NoDrafter(), Sampling(1.0, seed=seed))))) for seed in range(5)}
    assert len(outputs) == 5


@pytest.mark.parametrize("depth", range(8))
def test_rollback_to_every_length(depth: int) -> None:
    drafted = warm(FakeDrafter(oracle_that_errs_at(depth)), max_rows=8)
    steps = [step for step in steps_of(drafted, most=40) if isinstance(step, Verify)]
    assert generated(steps) == one_by_one(PROMPT, 40)
    assert {step.accepted for step in steps[:-1]} == {min(depth, 7)}


def test_an_oracle_is_accepted_whole_and_with_a_bonus_token() -> None:
    drafted = warm(FakeDrafter(oracle), max_rows=8)
    steps = [step for step in steps_of(drafted, most=24) if isinstance(step, Verify)]
    assert [(step.drafted, step.accepted, len(step.token_ids)) for step in steps] == [(7, 7, 8)] * 3


def test_no_draft_is_longer_than_what_may_still_come() -> None:
    drafter = FakeDrafter(oracle)
    steps_of(warm(drafter, max_rows=8), most=11)
    assert drafter.allowed == [7, 2]


def test_the_last_tokens_of_a_prompt_ride_in_the_first_pass() -> None:
    prompt = (1, 2, 3, 4) * 6
    drafted = decoder(FakeDrafter(oracle), max_rows=24)
    steps = steps_of(drafted, prompt, 30)
    assert isinstance(drafted.model, FakeModel)
    assert drafted.model.passes == [16, 24, 13]  # of the second, 8 are the prompt's and 16 drafted
    assert [type(step) for step in steps[1:]] == [Prefill, Verify, Verify]
    assert [(step.riding, step.drafted) for step in steps if isinstance(step, Verify)] == [(7, 16), (0, 12)]
    assert read(steps) == len(prompt) - 1
    assert generated(steps) == one_by_one(prompt, 30)


@pytest.mark.parametrize("position", range(1, 9))
def test_a_stop_token_anywhere_in_an_accepted_run_ends_it_there(position: int) -> None:
    model = FakeModel(next_token_logits(100, len), 100)  # says its position
    drafted = Decoder(model, FakeDrafter(positions), Sampling(), FLAT)
    stop = len(PROMPT) + position - 1
    output = generated(steps_of(drafted, most=50, stop=[stop]))
    assert output == list(range(len(PROMPT), stop + 1))
    assert model.kept == (*PROMPT, *output[:-1])


def test_the_first_of_two_stop_tokens_counts() -> None:
    model = FakeModel(next_token_logits(100, len), 100)
    drafted = Decoder(model, FakeDrafter(positions), Sampling(), FLAT)
    assert generated(steps_of(drafted, most=50, stop=[6, 5])) == [3, 4, 5]


@pytest.mark.parametrize("most", [0, 1, 2, 7, 8, 9])
def test_the_number_of_new_tokens_is_kept_inside_an_accepted_run(most: int) -> None:
    drafted = warm(FakeDrafter(oracle), max_rows=8)
    assert generated(steps_of(drafted, most=most)) == one_by_one(PROMPT, most)
    assert len(kept(drafted)) == len(PROMPT) - 1 + most


@given(random_plans(), st.integers(1, 12), st.integers(5, 12))
def test_a_drafter_that_proposes_more_than_allowed_changes_nothing(plan: Plan, most: int, context: int) -> None:
    hostile = FakeDrafter(lambda tokens, _: plan(tokens, 10))
    drafted = decoder(hostile, max_rows=3, context=context)
    assert generated(steps_of(drafted, most=most)) == one_by_one(PROMPT, min(most, context - len(PROMPT) + 1))


@pytest.mark.parametrize("drafter", [NoDrafter(), FakeDrafter(oracle)])
@pytest.mark.parametrize("context", [3, 4, 5, 12])
def test_a_full_context_ends_the_run(context: int, drafter: Drafter) -> None:
    drafted = decoder(drafter, context=context)
    output = generated(steps_of(drafted, most=50))
    assert output == one_by_one(PROMPT, context - len(PROMPT) + 1)
    assert len(kept(drafted)) == context


@pytest.mark.parametrize("prompt", [(), (1,) * 13])
def test_a_prompt_that_does_not_fit_is_refused(prompt: Tokens) -> None:
    with pytest.raises(ValueError, match="1 to 12 tokens"):
        steps_of(decoder(NoDrafter(), context=12), prompt)


def test_a_model_of_one_row_decodes() -> None:
    assert generated(steps_of(decoder(FakeDrafter(oracle), max_rows=1))) == one_by_one(PROMPT, 20)


@pytest.mark.parametrize("looks", range(12))
def test_cancelled_at_every_boundary_it_ends_before_the_next_pass(looks: int) -> None:
    prompt = (1, 2, 3, 4) * 10
    drafted = decoder(FakeDrafter(oracle_that_errs_at(2)), max_rows=8)
    steps = steps_of(drafted, prompt, 20, cancel=CancelledAfter(looks))
    assert isinstance(drafted.model, FakeModel)
    assert len(drafted.model.passes) == looks == len(steps) - 1
    written = (*prompt, *generated(steps))
    assert kept(drafted) == written[: len(kept(drafted))]
    again = steps_of(drafted, prompt, 20)
    assert generated(again) == one_by_one(prompt, 20)
    assert read(steps + again) == len(prompt) - 1  # what was read before the cancel is not read again


def test_a_run_left_at_any_step_leaves_the_cache_whole() -> None:
    prompt = (1, 2, 3, 4) * 10
    for steps_taken in range(10):
        drafted = decoder(FakeDrafter(oracle_that_errs_at(2)), max_rows=8)
        run = drafted.run(prompt, (), 20, (), Never())
        for _ in range(steps_taken):
            next(run)
        run.close()
        assert generated(steps_of(drafted, prompt)) == one_by_one(prompt, 20)


def test_an_event_set_between_steps_stops_the_run() -> None:
    cancel = threading.Event()
    seen: list[Step] = []
    for step in decoder(NoDrafter()).run(PROMPT, (), 50, (), cancel):
        seen.append(step)
        if len(generated(seen)) == 3:
            cancel.set()
    assert len(generated(seen)) == 3


@pytest.mark.parametrize("passes", range(6))
def test_an_interrupted_pass_ends_the_run_and_what_was_done_before_stands(passes: int) -> None:
    class Interruptible(FakeModel):
        def _rows(self, tokens: Tokens, paths: list[Tokens]) -> list[FloatArray]:
            if len(self.passes) > passes:
                raise Interrupted
            return super()._rows(tokens, paths)

    runner = Decoder(Interruptible(LOGITS, VOCAB, max_rows=4), FakeDrafter(oracle), Sampling.GREEDY, FLAT)
    steps = steps_of(runner)
    assert len(steps) == 1 + passes
    whole = [*PROMPT, *one_by_one(PROMPT, 20)]
    assert kept(runner) == tuple(whole[: len(kept(runner))])


def test_a_deadline_that_has_passed_reads_nothing_and_one_in_time_ends_the_run() -> None:
    drafted = decoder(NoDrafter())
    assert [type(step) for step in drafted.run(PROMPT, (), 50, (), Never(), time.monotonic())] == [Prefill]
    assert kept(drafted) == ()
    started = time.monotonic()
    run = drafted.run(PROMPT, (), 4000, (), Never(), started + 0.02)
    assert 0 < len(generated(list(run))) < 4000
    assert time.monotonic() - started < 1.0


def test_the_next_prompt_pays_for_what_changed_only() -> None:
    drafted = decoder(NoDrafter())
    output = generated(steps_of(drafted, (1, 2, 3, 4, 1, 2), 4))
    accepted_and_typed_on = (1, 2, 3, 4, 1, 2, *output[:3], 0)
    steps = steps_of(drafted, accepted_and_typed_on, 4)
    assert steps[0].reused == 9
    assert generated(steps) == one_by_one(accepted_and_typed_on, 4)
    back_in_the_middle = (1, 2, 3, 0, 1)
    steps = steps_of(drafted, back_in_the_middle, 4)
    assert steps[0].reused == 3
    assert generated(steps) == one_by_one(back_in_the_middle, 4)
    assert steps_of(drafted, back_in_the_middle, 4)[0].reused == 4  # the last token always rides along


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=2, max_size=6))
def test_a_warm_cache_gives_the_output_of_a_cold_one(prompts: list[list[int]]) -> None:
    warm = decoder(FakeDrafter(oracle_that_errs_at(1)))
    for prompt in prompts:
        assert generated(steps_of(warm, prompt, 6)) == one_by_one(prompt, 6)


@settings(max_examples=20)
@given(random_plans())
def test_a_real_cache_gives_the_tokens_of_no_cache(plan: Plan) -> None:
    model = TinyTransformer(VOCAB)
    drafted = Decoder(model, FakeDrafter(plan), Sampling(), FLAT)
    for prompt in ((1, 2, 3, 4), (1, 2, 0)):
        tokens = list(prompt)
        while len(tokens) < len(prompt) + 12:
            tokens.append(int(model.logits(tuple(tokens)).argmax()))
        assert generated(steps_of(drafted, prompt, 12)) == tokens[len(prompt) :]


def test_what_was_read_ahead_is_not_read_again() -> None:
    prompt = (1, 2, 3, 4) * 20
    ahead = decoder(NoDrafter(), max_rows=8)
    assert sum(len(step.token_ids) for step in ahead.read(prompt, (), Never())) == len(prompt) - 1
    steps = steps_of(ahead, prompt)
    assert [type(step) for step in steps[:2]] == [Prefill, Verify]
    assert steps[0].reused == len(prompt) - 1
    assert generated(steps) == one_by_one(prompt, 20)


@pytest.mark.parametrize("looks", range(6))
def test_reading_ahead_ends_at_once_and_what_was_read_stays(looks: int) -> None:
    prompt = (1, 2, 3, 4) * 20
    ahead = decoder(NoDrafter(), max_rows=8)
    list(ahead.read(prompt, (), CancelledAfter(looks)))
    assert kept(ahead) == prompt[: 8 * looks]
    assert steps_of(ahead, prompt)[0].reused == 8 * looks


def test_reading_ahead_what_is_known_forgets_no_text_that_may_yet_be_typed() -> None:
    ahead = decoder(NoDrafter())
    suggested = tuple(generated(steps_of(ahead, PROMPT, 8)))
    for typed in range(5):
        assert list(ahead.read((*PROMPT, *suggested[:typed]), (), Never())) == []
    assert steps_of(ahead, (*PROMPT, *suggested[:6]))[0].reused == len(PROMPT) + 5


def test_forgetting_makes_the_next_run_cold() -> None:
    drafted = decoder(NoDrafter())
    steps_of(drafted)
    drafted.forget()
    assert drafted.model.length == 0
    assert steps_of(drafted)[0].reused == 0


def test_a_drafter_may_be_exchanged_between_runs() -> None:
    drafted = decoder(NoDrafter())
    plain = generated(steps_of(drafted))
    drafted.drafter = FakeDrafter(oracle)
    assert generated(steps_of(drafted)) == plain


def test_stats_follow_from_the_steps() -> None:
    stats = DecodeStats()
    steps = [
        Prefill((), reused=10),
        Prefill((1, 2, 3), seconds=0.5),
        Verify((1, 2, 3), drafted=4, accepted=2, seconds=0.25),
        Verify((5,), drafted=4, accepted=0, seconds=0.25),
        Verify((6, 7), drafted=1, accepted=1, seconds=0.25, drafting=0.125),
        Verify((8,), seconds=0.25, asked=False),
    ]
    for step in steps:
        count(stats, step)
    assert stats == DecodeStats(
        reused_tokens=10, read_tokens=3, generated_tokens=7, steps=4, undrafted_steps=1, drafted=9, accepted=3,
        prefill_ms=500.0, decode_ms=1000.0, draft_ms=125.0, accepted_per_position=[2, 1],
    )  # fmt: skip


def test_a_prefill_pass_finds_its_sixty_milliseconds() -> None:
    pace = PrefillPace(512, GUESS)
    for _ in range(10):
        pace.learn(pace.rows, 0.010 + 0.00099 * pace.rows)
    assert pace.rows == 48  # 57.5 ms


def test_a_slow_machine_reads_a_few_rows_at_a_time_and_a_fast_one_all_it_can() -> None:
    slow, fast = PrefillPace(512, GUESS), PrefillPace(32, GUESS)
    for _ in range(10):
        slow.learn(slow.rows, 0.020 * slow.rows)
        fast.learn(fast.rows, 1e-5 * fast.rows)
    assert slow.rows == LEAST_ROWS
    assert fast.rows == 32


def test_it_begins_with_what_was_measured() -> None:
    assert PrefillPace(512, GUESS).rows == LEAST_ROWS
    assert PrefillPace(512, replace(GUESS, prefill=((16, 0.016), (64, 0.064)))).rows == 56  # 60 fit, in blocks of 8
    assert PrefillPace(64, replace(GUESS, prefill=((16, 0.001), (64, 0.002)))).rows == 64


def chunks(costs: Costs, least_rows: int = LEAST_ROWS) -> list[int]:
    drafted = Decoder(FakeModel(LOGITS, VOCAB, max_rows=32), NoDrafter(), Sampling.GREEDY, costs, least_rows)
    return [len(step.token_ids) for step in steps_of(drafted, (1,) * 65, 0)[1:]]


def test_costs_decide_the_first_chunks() -> None:
    fast = replace(GUESS, prefill=((16, 0.001), (32, 0.002)))
    assert chunks(GUESS)[0] == LEAST_ROWS
    assert chunks(fast) == [32, 32]


def test_a_decoder_may_have_its_own_least_rows() -> None:
    slow = replace(GUESS, prefill=((16, 16.0), (32, 32.0)))
    assert chunks(slow, least_rows=32) == [32, 32]
    assert chunks(slow)[0] == LEAST_ROWS


def test_costs_decide_the_lengths_of_drafts_and_may_be_exchanged() -> None:
    def plan(tokens: Tokens, most: int) -> Draft:
        return replace(oracle(tokens, most), chances=tuple(0.5 ** (i + 1) for i in range(most)))

    dear = Costs(0, ((1, 1.0), (2, 2.0)), GUESS.prefill)
    drafted = Decoder(FakeModel(LOGITS, VOCAB, max_rows=8), FakeDrafter(plan), Sampling.GREEDY, dear)
    assert {step.drafted for step in steps_of(drafted)[1:]} == {0}
    drafted.costs = replace(dear, verify=((1, 1.0), (8, 1.0001)))
    assert steps_of(drafted)[1].drafted == 7
    assert generated(steps_of(drafted)) == one_by_one(PROMPT, 20)


def test_unlearning_forgets_acceptance_and_keeps_the_cache() -> None:
    def plan(tokens: Tokens, most: int) -> Draft:
        wrong = [(token + 1) % VOCAB for token in one_by_one(tokens, most)]
        return Draft.line(wrong, chances=[0.9 ** (i + 1) for i in range(most)])

    drafted = warm(FakeDrafter(plan), max_rows=8)
    first = drafts(steps_of(drafted, most=60))
    assert first[0] > first[-1]
    drafted.unlearn()
    again = steps_of(drafted, most=60)
    assert drafts(again) == first
    assert again[0].reused == len(PROMPT) - 1


def test_it_at_most_doubles_so_that_no_pass_takes_twice_its_time() -> None:
    pace = PrefillPace(512, GUESS)
    first = pace.rows
    pace.learn(first, 1e-9)
    assert pace.rows == 2 * first


def test_a_short_last_pass_says_nothing_unless_it_was_slow() -> None:
    pace = PrefillPace(512, GUESS)
    for _ in range(4):
        pace.learn(pace.rows, 0.0001)
    full = pace.rows
    pace.learn(1, 0.004)
    assert pace.rows == full
    pace.learn(1, 0.120)
    assert pace.rows == LEAST_ROWS
