"""The whole path with a fake model: streaming, budgets, cancellation, statistics, what stays in the cache."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from threading import Event
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ghostdraft.completion.buffers import (
    MOST_BLOCK,
    MOST_KNOWN,
    MOST_NEW,
    MOST_OTHERS,
    MOST_TYPED,
    REACH,
    Buffers,
    blocks,
)
from ghostdraft.completion.context import DEFAULT_CONTEXT, Window
from ghostdraft.completion.engine import Engine
from ghostdraft.completion.prompt import STEP
from ghostdraft.completion.stream import TextStream
from ghostdraft.completion.types import Budget, OtherBuffer, Prefill, Snapshot, StopReason, Verify
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.costs import GUESS
from ghostdraft.models.sampling import Sampling
from tests.completion.writing import END, SPECIAL, TOKENIZER, VOCAB, completed, engine_for, snapshot_at, spec_of
from tests.fakes import ByteTokenizer, FakeCosts, FakeLoaded, FakeModel, Never, hashed_logits

BODY = "def f():\n    ¦\n"


class After:
    """A cancel token that is set once it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def slowed(engine: Engine, seconds: float) -> None:
    """Makes each pass of the engine's model take so long."""
    forward = engine.decoder.model.forward

    def slow(*args: Any) -> Any:
        time.sleep(seconds)
        return forward(*args)

    engine.decoder.model.forward = slow  # type: ignore[method-assign]


def test_statistics_are_filled() -> None:
    stats = completed("x = f(1)\ny = ¦\n", "f(2)\nz").stats
    assert stats.prompt_tokens == len("x = f(1)\ny =")
    assert stats.generated_tokens == stats.steps == len(" f(2)\n")
    assert stats.kept_tokens == len(" f(2)")
    assert stats.reused_tokens == 0
    assert stats.total_ms >= stats.decode_ms > 0


def test_the_next_key_pays_only_for_itself() -> None:
    engine, snapshot = engine_for("a = 1\nb = ¦\n" + "z = 1\n" * 9, "foo + bar\n")
    first = engine.complete(snapshot, Budget(64), Never()).stats
    typed = snapshot_at("a = 1\nb = f¦\n" + "z = 1\n" * 9)
    second = engine.complete(typed, Budget(64), Never())
    assert second.text == "oo + bar"
    assert second.stats.reused_tokens >= first.prompt_tokens - 1


@pytest.mark.parametrize("marked", ["¦", "\n¦", "  \n\t¦\r\n \n"])
def test_a_blank_file_says_not_even_its_language(marked: str) -> None:
    completion = completed(marked, "void printArray(int arr[]) {\n")
    assert (completion.text, completion.stop_reason) == ("", StopReason.EMPTY)
    assert completion.stats.prompt_tokens == 0


def test_cancelled_means_nothing_shown() -> None:
    engine, snapshot = engine_for(BODY, "return 1\n")
    cancel = Event()
    cancel.set()
    completion = engine.complete(snapshot, Budget(64), cancel)
    assert (completion.text, completion.stop_reason, completion.stats.steps) == ("", StopReason.CANCELLED, 0)


@pytest.mark.parametrize("looks", range(0, 40, 3))
def test_cancelled_at_any_time_the_next_answer_is_right(looks: int) -> None:
    engine, snapshot = engine_for(BODY, "x = 1\n    return x\n")
    completion = engine.complete(snapshot, Budget(64), After(looks))
    assert completion.text in ("", "x = 1\n    return x")
    assert (completion.stop_reason is StopReason.CANCELLED) == (completion.text == "")
    assert engine.complete(snapshot, Budget(64), Never()).text == "x = 1\n    return x"


def test_whole_lines_are_shown_at_the_deadline() -> None:
    engine, snapshot = engine_for(BODY, "first = 1\n    second = 2\n    third = 3\n")
    slowed(engine, 0.01)
    completion = engine.complete(snapshot, Budget(64, time.monotonic() + 0.25), Never())
    assert completion.text in ("first = 1", "first = 1\n    second = 2")
    assert completion.stop_reason is StopReason.DEADLINE


def test_after_a_while_a_whole_line_is_enough() -> None:
    written = "first = 1\n    second = 2\n    third = 3\n"
    engine, snapshot = engine_for(BODY, written)
    assert engine.complete(snapshot, Budget(64), Never()).text == written.rstrip("\n")
    hurried = engine.complete(snapshot, Budget(64, line_enough=time.monotonic()), Never())
    assert (hurried.text, hurried.stop_reason) == ("first = 1", StopReason.DEADLINE)
    patient = engine.complete(snapshot, Budget(64, line_enough=time.monotonic() + 60), Never())
    assert patient.text == written.rstrip("\n")


def test_where_a_line_is_enough_half_of_one_is_not() -> None:
    engine, snapshot = engine_for("x = ¦\n", "a_very_long_name_that_takes_its_time\n")
    completion = engine.complete(snapshot, Budget(64, line_enough=time.monotonic()), Never())
    assert completion.text == "a_very_long_name_that_takes_its_time"


def test_half_a_line_is_not_shown_at_the_deadline() -> None:
    engine, snapshot = engine_for("x = ¦\n", "a_very_long_name_that_takes_its_time\n")
    slowed(engine, 0.01)
    completion = engine.complete(snapshot, Budget(64, time.monotonic() + 0.15), Never())
    assert (completion.text, completion.stop_reason) == ("", StopReason.DEADLINE)
    assert completion.stats.steps > 0


def test_prefill_before_the_deadline_is_kept() -> None:
    marked = "".join(f"line_{i} = {i}\n" for i in range(60)) + "x = ¦\n"
    engine, snapshot = engine_for(marked, "1\n")
    slowed(engine, 0.02)
    late = engine.complete(snapshot, Budget(64, time.monotonic() + 0.1), Never())
    assert (late.text, late.stop_reason, late.stats.steps) == ("", StopReason.DEADLINE, 0)
    again = engine.complete(snapshot, Budget(64), Never())
    assert again.text == "1"
    assert again.stats.reused_tokens > 0


def test_a_deadline_long_past_costs_no_pass() -> None:
    engine, snapshot = engine_for(BODY, "return 1\n")
    completion = engine.complete(snapshot, Budget(64, time.monotonic() - 1), Never())
    assert completion.stop_reason is StopReason.DEADLINE
    assert engine.decoder.model.passes == []  # type: ignore[attr-defined]


def test_most_tokens_end_a_line_where_it_is() -> None:
    completion = completed("x = ¦\n", "abcdefgh\n", max_tokens=5)
    assert (completion.text, completion.stop_reason) == ("abcd", StopReason.MAX_TOKENS)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_model_goes_on_with_the_word_at_the_cursor(temperature: float) -> None:
    """It would rather say something else after what stands before that word."""
    engine, snapshot = engine_for("    retu¦\n", "rn x\n")
    engine.decoder.sampling = Sampling(temperature)
    rows = engine.decoder.model._rows  # type: ignore[attr-defined]

    def distracted(tokens: Any, paths: Any) -> Any:
        result = rows(tokens, paths)
        if len(tokens) == 1 and tokens[0] == ord(" "):
            result[-1] = result[-1].copy()
            result[-1][ord("x")] = 100.0
        return result

    engine.decoder.model._rows = distracted  # type: ignore[attr-defined]
    assert engine.complete(snapshot, Budget(64), Never()).text == "rn x"


def test_a_prompt_that_the_context_cannot_hold_is_cut() -> None:
    marked = "".join(f"line_{i} = {i}\n" for i in range(3000)) + "x = ¦\n"
    engine, snapshot = engine_for(marked, "1\n", window=Window(20_000, 1000))
    completion = engine.complete(snapshot, Budget(64), Never())
    assert completion.text == "1"
    assert completion.stats.prompt_tokens + 64 <= engine.decoder.model.context


def test_an_answer_leaves_three_quarters_of_the_context_to_the_prompt() -> None:
    marked = "".join(f"line_{i} = {i}\n" for i in range(3000)) + "x = ¦\n"
    engine, snapshot = engine_for(marked, "1\n")
    context = engine.decoder.model.context
    plain, greedy = (engine.complete(snapshot, Budget(most), Never()) for most in (context // 4, 10 * context))
    assert greedy.text == plain.text
    assert greedy.stats.prompt_tokens == plain.stats.prompt_tokens > context // 4


@pytest.mark.parametrize("marked", ["¦", "¦\n", "\n¦", "x¦", "\r\n¦\r\n", "\f¦\u2028", "\ufeff¦", "\0¦"])
@pytest.mark.parametrize("language", ["python", "yaml", "nothing at all", ""])
def test_any_text_gets_an_answer(marked: str, language: str) -> None:
    assert completed(marked, "y = 1\n", language).start == marked.index("¦")


def test_drafting_changes_nothing_but_the_steps() -> None:
    marked = "first = value(1)\nsecond = value(2)\n" * 4 + "first = ¦\n"
    engine, snapshot = engine_for(marked, "value(1)\n")
    plain = engine.complete(snapshot, Budget(64), Never())
    engine.decoder.drafter = NgramDrafter()
    drafted = engine.complete(snapshot, Budget(64), Never())
    assert drafted.text == plain.text
    assert drafted.stats.steps < plain.stats.steps
    assert drafted.stats.accepted > 0


class CountingTokenizer(ByteTokenizer):
    """Counts what it is asked to encode."""

    def __init__(self) -> None:
        super().__init__(SPECIAL)
        self.encoded = 0
        self.characters = 0

    def encode(self, text: str, special: bool = False) -> list[int]:
        self.encoded += 1
        self.characters += len(text)
        return super().encode(text, special)


@pytest.mark.parametrize("context", [DEFAULT_CONTEXT, 32_768])
def test_while_one_types_hardly_anything_is_tokenised_however_wide_the_context(context: int) -> None:
    tokenizer = CountingTokenizer()
    model = FakeModel(hashed_logits(VOCAB), VOCAB, context=4 * context)
    engine = Engine(FakeLoaded(spec_of(()), tokenizer, model), NoDrafter(), Sampling.GREEDY, window=Window.of(context))
    text = "".join(f"some words of line {i}\n" for i in range(context // 5)) + "x = "
    while engine._buffers.waiting:
        engine.complete(at(text, ""), Budget(64), After(0))
    before = tokenizer.characters
    for count in range(10):
        engine.complete(at(text + "y" * count, ""), Budget(64), After(0))
    assert tokenizer.characters - before < 10 * 3 * STEP


def test_an_edit_costs_one_block_of_the_buffers() -> None:
    tokenizer = CountingTokenizer()
    buffers = Buffers(tokenizer)
    lines = [f"name_{i} = {i}\n" for i in range(800)]
    other = OtherBuffer("file:///b", "python", "other = 1\n" * 300)

    def tokens(text: str) -> tuple[tuple[int, ...], ...]:
        return buffers.tokens(Snapshot("file:///a", 1, "python", text, 0, others=(other,)))

    whole = tokens("".join(lines))
    assert bytes(b for block in whole for b in block).decode() == "".join(lines) + other.text
    before = tokenizer.encoded
    lines.insert(300, "new = 1\n")
    tokens("".join(lines))
    assert 1 <= tokenizer.encoded - before <= 3


def at(before: str, behind: str, *others: OtherBuffer) -> Snapshot:
    return Snapshot("file:///a", 1, "python", before + behind, len(before), others=others)


def test_while_one_types_the_blocks_are_the_very_same() -> None:
    buffers = Buffers(TOKENIZER)
    before, behind = "one = 1\n" * 20_000, "\ntwo = 2\n" * 20_000
    other = OtherBuffer("file:///b", "python", "other = 1\n")
    while (found := buffers.tokens(at(before, behind, other))) is not buffers.tokens(at(before, behind, other)):
        pass  # not all are tokenised at once
    for count in range(MOST_TYPED):
        assert buffers.tokens(at(before + "x" * count, behind, replace(other))) is found
    changes = [
        at(before + "x" * (MOST_TYPED + 1), behind, other),
        at(before[:-3], behind, other),
        at("#" + before, behind, other),
        at(before, behind[1:], other),
        at(before, behind, replace(other, text="other = 2\n")),
        at(before, behind),
    ]
    for changed in changes:
        again = buffers.tokens(changed)
        assert again is not found
        assert again == Buffers(TOKENIZER).tokens(changed) or len(again) > len(Buffers(TOKENIZER).tokens(changed))
        buffers.tokens(at(before, behind, other))


def test_no_block_reaches_over_the_cursor() -> None:
    """A drafter would copy what stands behind the cursor as what comes next."""
    before, behind = "one = 1\ntwo = ", "\nthree = 3\n"
    found = Buffers(TOKENIZER).tokens(Snapshot("file:///a", 1, "python", before + behind, len(before)))
    assert [bytes(block).decode() for block in found] == [before, behind]


def test_a_cold_start_does_not_tokenise_everything_at_once() -> None:
    tokenizer = CountingTokenizer()
    text = "".join(f"name_{i} = {i}\n" for i in range(20_000))
    Buffers(tokenizer).tokens(Snapshot("file:///a", 1, "python", text, len(text) // 2))
    assert tokenizer.characters <= MOST_NEW


LINES = st.builds(str.__mul__, st.sampled_from("xyé"), st.sampled_from([0, 1, 30, MOST_BLOCK, MOST_NEW + 1, REACH]))
TEXTS = st.lists(LINES, max_size=6).map("\n".join)


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
@settings(max_examples=50)
def test_soon_no_block_waits_and_no_request_tokenises_too_much(before: str, behind: str, others: list[str]) -> None:
    tokenizer = CountingTokenizer()
    buffers = Buffers(tokenizer)
    snapshot = at(before, behind, *(OtherBuffer("file:///b", "python", text) for text in others))
    rounds = 0
    while buffers.waiting:
        known = tokenizer.characters
        buffers.tokens(snapshot)
        assert tokenizer.characters - known <= MOST_NEW
        rounds += 1
        assert rounds <= 1 + (REACH + MOST_OTHERS) // (MOST_NEW - 2 * MOST_BLOCK)


def test_the_blocks_of_documents_long_gone_are_forgotten() -> None:
    tokenizer, text = CountingTokenizer(), "".join(f"value_{i} = {i}\n" for i in range(1500))
    buffers, first = Buffers(tokenizer), Snapshot("file:///0", 1, "python", text, 0)

    def cost(snapshot: Snapshot) -> int:
        """Code points that had to be tokenised."""
        before = tokenizer.characters
        buffers.tokens(snapshot)
        return tokenizer.characters - before

    assert cost(first) == len(text)
    for number in range(MOST_KNOWN // len(text) - 1):
        cost(replace(first, text=text.replace("value", f"v{number:04}")))
    assert cost(first) == 0
    for number in range(MOST_KNOWN // len(text) + 1):
        cost(replace(first, text=text.replace("value", f"w{number:04}")))
    assert cost(first) == len(text)


@given(TEXTS)
@example("".join(f"  name_{i} = {i}\n" for i in range(500)) + "end")
@settings(max_examples=50)
def test_blocks_are_the_text(text: str) -> None:
    assert "".join(blocks(text)) == text
    assert max(map(len, blocks(text)), default=0) <= 2 * MOST_BLOCK


def test_text_streams_by_whole_characters() -> None:
    stream = TextStream(TOKENIZER, {END})
    assert [stream.feed(Verify((byte,))) for byte in "é😀".encode()] == ["", "é", "", "", "", "😀"]
    assert stream.feed(Prefill((1, 2))) == ""
    assert stream.feed(Verify((*b"a", END, *b"b"))) == "a"
    assert stream.ended
    assert stream.feed(Verify(tuple(b"c"))) == ""
    assert [stream.tokens_within(length) for length in range(4)] == [1, 5, 6, 7]


@pytest.mark.parametrize("cuts", [(9,), (1, 2, 6), (4, 5)])
def test_what_the_model_repeats_of_the_text_before_the_cursor_is_skipped(cuts: tuple[int, ...]) -> None:
    stream = TextStream(TOKENIZER, {END}, skip=4)
    places = [0, *cuts, 9]
    pieces = [stream.feed(Verify(tuple(b"retuABCDE"[start:end]))) for start, end in pairwise(places)]
    assert "".join(pieces) == "ABCDE"
    assert stream.tokens_within(2) == 6


MEASURED = replace(GUESS, verify=((1, 0.01), (8, 0.02)))


def fake_engine(costs: FakeCosts) -> Engine:
    model = FakeModel(hashed_logits(VOCAB), VOCAB)
    return Engine(FakeLoaded(spec_of(()), TOKENIZER, model, costs=costs), NoDrafter(), Sampling.GREEDY)


def test_costs_that_were_measured_before_hold_from_the_start() -> None:
    engine = fake_engine(FakeCosts(MEASURED))
    assert engine.measured
    assert engine.decoder.costs == MEASURED


def test_measuring_goes_on_until_it_is_done_and_leaves_the_cache_alone() -> None:
    costs = FakeCosts()
    engine = fake_engine(costs)
    engine.complete(snapshot_at("a = 1\nb = ¦"), Budget(0), Never())
    known = engine.decoder.model.length
    engine.measure(After(3))
    assert not engine.measured
    engine.measure(Never())
    assert engine.measured
    assert costs.kept == engine.decoder.costs
    assert engine.decoder.model.length == known


@pytest.mark.parametrize("marked", [BODY, "a = 1\nb = ¦\n" + "z = 1\n" * 9, "x = f(1)\ny = ¦\n"])
def test_read_ahead_all_but_the_last_token_is_known_and_the_answer_is_the_same(marked: str) -> None:
    cold, snapshot = engine_for(marked, "foo + bar\n")
    warm, _ = engine_for(marked, "foo + bar\n")
    warm.read_ahead(snapshot, Budget(64), Never())
    assert len(warm._trees) == 1
    answer = warm.complete(snapshot, Budget(64), Never())
    assert answer.stats.read_tokens == 0
    assert answer.stats.reused_tokens == answer.stats.prompt_tokens - 1
    assert answer.text == cold.complete(snapshot, Budget(64), Never()).text == "foo + bar"


@pytest.mark.parametrize("looks", range(5))
def test_reading_ahead_gives_way_at_any_time(looks: int) -> None:
    engine, snapshot = engine_for("".join(f"line_{i} = {i}\n" for i in range(60)) + "x = ¦\n", "1\n")
    engine.read_ahead(snapshot, Budget(64), After(looks))
    answer = engine.complete(snapshot, Budget(64), Never())
    assert (answer.text, answer.stats.reused_tokens > 0) == ("1", looks > 0)


@pytest.mark.parametrize("marked", ["¦", "  \n¦"])
def test_of_a_blank_file_nothing_is_read_ahead(marked: str) -> None:
    engine, snapshot = engine_for(marked, "x")
    engine.read_ahead(snapshot, Budget(64), Never())
    assert engine.decoder.model.length == 0
