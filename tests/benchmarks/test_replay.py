"""The replay of typing: what a sample is, what was computed for nothing, and a server that is typed into."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ghostdraft.benchmarks import replay_plot, replay_table
from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.benchmarks.lsp_client import Client, Message
from ghostdraft.benchmarks.replay import (
    LEAST_PAUSE,
    Answer,
    Note,
    Press,
    Replay,
    Sample,
    Work,
    cancelled_tokens,
    first_line,
    gaps,
    in_time,
    is_sampled,
    percentile,
    samples,
    summarise,
    works,
)
from ghostdraft.benchmarks.replay_editor import DEBOUNCE, Caret, Editor, serving
from ghostdraft.benchmarks.replay_server import NotingEngine
from ghostdraft.benchmarks.typing_model import Keystroke
from ghostdraft.completion.engine import Engine
from ghostdraft.completion.types import Budget, Snapshot
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.lsp_server import bench_cli, convert, protocol
from ghostdraft.lsp_server.commands import app
from ghostdraft.lsp_server.documents import Document
from ghostdraft.lsp_server.protocol import Position
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import Interrupted, ModelSpec, Pass
from tests.fakes import ByteTokenizer, FakeLoaded, FakeModel, next_token_logits, shape

HEAD = 'def names():\n    one = find("one")\n    two = find("two")\n    three = find("three")\n    '
BODY = 'four = find("four")\n    five = find("five")'
TAIL = "\n\n\nnames()\n"

SECONDS = st.floats(0.0, 3.0, allow_nan=False)


def press(text: str, at: float, gap: float, request: int | None) -> Press:
    """Versions are ten times the request, so that one is not taken for the other."""
    return Press(text, at, gap, 10 * (request or 0), request)


def pressed(*lengths: float) -> list[Press]:
    """A key before each of the gaps and one behind them, each with a request; the keys write abc..."""
    presses, at = [], 0.0
    for i, gap in enumerate([*lengths, math.inf]):
        presses.append(press("abcdefghijklmnopqrstuvwxyz"[i % 26], at, gap, i + 1))
        at += gap
    return presses


@given(st.lists(SECONDS, min_size=1))
def test_every_long_pause_between_two_keys_is_a_sample(times: list[float]) -> None:
    strokes = [Keystroke("a", at) for at in sorted(times)]
    long = sum(strokes[i + 1].at - strokes[i].at >= LEAST_PAUSE for i in range(len(strokes) - 1))
    assert sum(map(is_sampled, gaps(strokes))) == long


@given(st.lists(SECONDS, max_size=8), st.dictionaries(st.integers(1, 9), st.tuples(SECONDS, st.text("ab \n"))))
def test_a_sample_is_shown_exactly_if_text_came_before_the_next_key(
    lengths: list[float], came: dict[int, tuple[float, str]]
) -> None:
    presses = pressed(*lengths)
    answers = {i: Answer(presses[i - 1].at + wait, text) for i, (wait, text) in came.items() if i <= len(presses)}
    found = list(samples(presses, answers, "abcdefghi"))
    sampled = [i for i, gap in enumerate(lengths, start=1) if gap >= LEAST_PAUSE]
    assert len(found) == len(sampled)
    for i, sample in zip(sampled, found, strict=True):
        answer, following = answers.get(i), presses[i].at
        shown = answer is not None and answer.text.strip() != "" and answer.at < following
        assert (sample.seconds is not None) == shown
        if answer is not None and sample.seconds is not None:
            assert sample.seconds == pytest.approx(answer.at - presses[i - 1].at)


def test_the_first_line_is_held_against_what_the_hole_had_from_there_on() -> None:
    presses = pressed(1.0, 1.0, 1.0)
    answers = {1: Answer(0.5, "bcd\nother"), 2: Answer(1.5, "cde"), 3: Answer(2.5, "")}
    assert list(samples(presses, answers, "abcd\nlast")) == [Sample(0.5, True), Sample(0.5, False), Sample(None, False)]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1  \nb", "a = 1"), ("\n    a\nb", "\n    a"), ("  a", "  a"), ("", ""), (" \n ", "")],
)
def test_behind_a_whole_line_the_next_one_is_the_first(text: str, line: str) -> None:
    assert first_line(text) == line


def test_a_text_for_the_same_line_is_no_match_for_the_next_line() -> None:
    assert first_line("\nreturn") != first_line("return")


def test_an_answer_behind_the_next_key_is_cancelled_work() -> None:
    presses = pressed(0.4, 0.4)
    answers = {1: Answer(0.39, "in time"), 2: Answer(0.81, "late"), 3: Answer(9.0, "nothing follows")}
    assert set(in_time(presses, answers)) == {10, 30}
    notes = [Note(10, 5, 0, 5), Note(20, 6, 5, 3), Note(30, 7, 6, 2)]
    assert [work.cancelled for work in works(notes, presses, answers)] == [False, True, False]


def test_a_key_without_a_request_has_no_answer() -> None:
    presses = [press("a", 0.0, 0.01, None), press("b", 0.01, math.inf, 1)]
    assert in_time(presses, {1: Answer(1.0, "c")}) == {10: Answer(1.0, "c")}


def work(reused: int, computed: int, cancelled: bool) -> Work:
    return Work(Note(0, reused + computed, reused, computed), cancelled)


Draws = list[tuple[float, int, bool]]


def cached(draws: Draws) -> tuple[list[Work], int]:
    """Requests on a cache that is kept token by token: each keeps a share of it and computes so many behind that.

    Beside the work, how many tokens of cancelled requests went away with the next request, or were the last one's.
    """
    done, cache, lost = list[Work](), list[int](), 0
    for i, (share, computed, cancelled) in enumerate(draws):
        kept = int(share * len(cache))
        lost += sum(owner == i - 1 and done[owner].cancelled for owner in cache[kept:])
        cache = cache[:kept] + [i] * computed
        done.append(work(kept, computed, cancelled))
    return done, lost + sum(owner == len(draws) - 1 and done[owner].cancelled for owner in cache)


DRAWS = st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 20), st.booleans()), max_size=12)


@given(DRAWS)
def test_lost_is_what_the_next_request_does_not_find_of_a_cancelled_one(draws: Draws) -> None:
    done, lost = cached(draws)
    assert cancelled_tokens(done) == lost


@given(DRAWS)
def test_nothing_is_lost_but_what_cancelled_requests_computed(draws: Draws) -> None:
    done, _ = cached(draws)
    assert 0 <= cancelled_tokens(done) <= sum(one.note.computed for one in done if one.cancelled)


@pytest.mark.parametrize(
    ("done", "lost"),
    [
        ([work(0, 100, True), work(100, 5, False)], 0),  # all of the prompt that was read is found
        ([work(0, 100, True), work(90, 5, False)], 10),
        ([work(90, 20, True), work(80, 5, False)], 20),  # of 90 that others had computed nothing counts
        ([work(0, 100, False), work(0, 5, False)], 0),  # it was answered
        ([work(0, 0, True), work(90, 5, False)], 0),  # it ended before it looked at what others had computed
        ([work(0, 100, True)], 100),
    ],
)
def test_tokens_for_nothing(done: list[Work], lost: int) -> None:
    assert cancelled_tokens(done) == lost


@given(st.lists(SECONDS, min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_covers_its_share(values: list[float], share: int) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert found is not None
    assert sum(value <= found for value in values) * 100 >= share * len(values)
    assert sum(value < found for value in values) * 100 < share * len(values)


def replay(waits: Sequence[float | None], exact: int = 0, cpu: float = 1.0) -> Replay:
    found = tuple(Sample(wait, i < exact) for i, wait in enumerate(waits))
    return Replay(found, (work(30, 10, True), work(35, 5, False)), 20.0, cpu)


def test_a_summary_of_all_replays() -> None:
    summary = summarise([replay([0.4, None, 0.2], exact=1), replay([0.1], exact=1, cpu=3.0)]).as_json()
    assert summary == {
        "pauses": 4,
        "shown": 3,
        "shown_rate": 0.75,
        "p50_ms": 200.0,
        "p90_ms": 400.0,
        "p95_ms": 400.0,
        "exact_first_lines": 2,
        "prompt_tokens": 160,
        "reused_tokens": 130,
        "computed_tokens": 30,
        "cancelled_tokens": 10,
        "typed_seconds": 40.0,
        "cpu_seconds": 4.0,
        "cpu_seconds_per_typed_minute": 6.0,
        "waits_ms": [400.0, None, 200.0, 100.0],
    }


def test_where_nothing_was_shown_there_are_no_times() -> None:
    summary = summarise([replay([None, None])]).as_json()
    assert (summary["shown_rate"], summary["p50_ms"], summary["p95_ms"]) == (0.0, None, None)


CHARACTERS = st.text(st.sampled_from("aé😀\t\n"), max_size=30)


@given(CHARACTERS, CHARACTERS)
def test_the_caret_stands_where_the_server_counts(before: str, typed: str) -> None:
    caret = Caret(0, 0).after(before).after(typed)
    document = Document("file:///a", "c", 1, before + typed + "\nrest")
    place = convert.point(document, Position(caret.line, caret.character), "utf-16")
    assert document.offset(place) == len(before + typed)


def row() -> dict[str, Any]:
    ways = {way: summarise([replay([0.4, None, 0.2, 0.3], exact=1)]).as_json() for way in replay_table.WAYS}
    about = {"model": "tiny", "holes": 1, "lines": 4, "seed": 1, "holes_sha256": "0", "machine": "a machine"}
    return {"engine": "ngram", **ways, **about}


def test_the_curve_rises_to_the_share_that_was_shown() -> None:
    assert replay_plot.curve(row()["finished"]) == ([0.0, 200.0, 300.0, 400.0], [0.0, 0.25, 0.5, 0.75])


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    replay_plot.draw([row()], tmp_path / "times")
    assert (tmp_path / "times").read_bytes().startswith(b"\x89PNG")


def test_each_way_has_a_line_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    replay_table.show([row()])
    shown = capsys.readouterr().out
    for cells in replay_table.cells(row()):
        assert len(cells) == len(replay_table.COLUMNS)
        assert all(cell in shown for cell in cells)
    assert [cells[0] for cells in replay_table.cells(row())] == ["ngram, as typed", "ngram, finished"]


def test_what_cannot_be_drawn_or_drafted_is_said_before_anything_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["bench", "replay", "--drafter", "guess"])
    assert (result.exit_code, "no drafter guess" in result.stderr) == (2, True)
    monkeypatch.setattr(bench_cli, "find_spec", lambda _name: None)
    monkeypatch.setattr(bench_cli, "_cursors", lambda _files, _count: ([cursor()], "0"))
    result = CliRunner().invoke(app, ["bench", "replay", "--plot", "a.png"])
    assert (result.exit_code, "needs matplotlib" in result.stderr) == (2, True)


def cursor(name: str = "a.py") -> Cursor:
    return Cursor(name, "python", HEAD + TAIL, len(HEAD), BODY)


def script(*times: float) -> list[Keystroke]:
    """The first keys of the hole."""
    return [Keystroke(key, at) for key, at in zip(BODY, times, strict=False)]


def test_typing_depends_on_the_seed_and_the_hole_alone() -> None:
    both = replay_table.scripts([cursor("b.py"), cursor()], seed=1)
    assert both[1:] == replay_table.scripts([cursor()], seed=1)
    assert both[:1] != both[1:]
    assert both != replay_table.scripts([cursor("b.py"), cursor()], seed=2)


def test_every_drafter_types_every_hole_in_both_ways() -> None:
    assert replay_table.typing_minutes([script(0.0, 30.0), script(0.0, 15.0)], 2) == 3.0


class AnsweringClient(Client):
    """A server that answers each request with its number, `delay` seconds late, and heeds no cancel."""

    def __init__(self, delay: float) -> None:
        self.process = SimpleNamespace(pid=os.getpid())  # type: ignore[assignment]
        self.sent: list[Message] = []
        self._delay = delay
        self._answers: SimpleQueue[Message] = SimpleQueue()

    def ask(self, method: str, params: object) -> int:
        self.notify(method, params)
        answer = {"id": len(self.sent), "result": {"items": [{"insertText": str(len(self.sent))}]}}
        threading.Timer(self._delay, self._answers.put, (answer,)).start()
        return len(self.sent)

    def notify(self, method: str, params: object) -> None:
        self.sent.append({"method": method, "params": params, "at": time.perf_counter()})

    def read(self) -> Message:
        return self._answers.get()

    def params(self, method: str) -> list[Message]:
        return [message["params"] for message in self.sent if message["method"] == method]


def typed(client: AnsweringClient, finishes: bool, strokes: list[Keystroke]) -> Replay:
    return Editor(client, StringIO(), finishes).play(cursor(), strokes)


def test_the_next_key_cancels_what_has_not_come() -> None:
    client = AnsweringClient(delay=0.5)
    replay = typed(client, False, script(0.0, 0.4, 0.41))
    assert replay.samples == (Sample(None, False),)
    requests = [i for i, sent in enumerate(client.sent, start=1) if sent["method"] == "textDocument/inlineCompletion"]
    assert len(requests) == 2, "the second key has the third behind it at once"
    assert client.params("$/cancelRequest") == [{"id": requests[0]}]


def test_what_has_come_is_not_cancelled() -> None:
    client = AnsweringClient(delay=0.1)
    (sample,) = typed(client, False, script(0.0, 0.6)).samples
    assert sample.seconds is not None
    assert sample.seconds >= DEBOUNCE + 0.1
    assert client.params("$/cancelRequest") == []


def test_a_pause_lasts_until_the_answer_is_there() -> None:
    client = AnsweringClient(delay=0.5)
    (sample,) = typed(client, True, script(0.0, 0.4, 0.41)).samples
    assert sample.seconds is not None
    assert sample.seconds >= DEBOUNCE + 0.5
    assert client.params("$/cancelRequest") == []


def test_behind_a_long_wait_no_time_is_made_up() -> None:
    client = AnsweringClient(delay=0.5)
    typed(client, True, script(0.0, 0.4, 0.6))
    _, second, third = (sent["at"] for sent in client.sent if sent["method"] == "textDocument/didChange")
    assert third - second >= 0.19


def test_the_server_has_the_text_that_was_typed() -> None:
    client, strokes = AnsweringClient(delay=0.0), [Keystroke(key, 0.0) for key in ("x", "é", "\n    ", "😀", "y")]
    typed(client, False, strokes)
    document = Document("file:///a.py", "python", 0, HEAD + TAIL)
    for change in client.params("textDocument/didChange"):
        for each in protocol.read(protocol.DidChange, change).content_changes:
            convert.change(document, each, "utf-16")
    assert document.text == HEAD + "xé\n    😀y" + TAIL


def a_model() -> FakeModel:
    return FakeModel(next_token_logits(256, lambda _tokens: ord("a")), 256)


def noting_engine(model: FakeModel, notes: StringIO) -> NotingEngine:
    loaded = FakeLoaded(ModelSpec("fake", "none", shape(256)), ByteTokenizer(), model)
    return NotingEngine(Engine(loaded, NoDrafter(), Sampling.GREEDY), notes)


def snapshot(version: int, text: str) -> Snapshot:
    return Snapshot("file:///a.py", version, "python", text, len(text))


@pytest.mark.parametrize(("asked", "found"), [("x = 1 + ", 6), ("x = 2 + ", 4), ("y = 2 + ", 0)])
def test_what_is_read_ahead_is_for_nothing_where_the_next_request_does_not_find_it(asked: str, found: int) -> None:
    notes = StringIO()
    noting = noting_engine(a_model(), notes)
    noting.read_ahead(snapshot(1, "x = 1 + "), Budget(2), threading.Event())
    noting.complete(snapshot(1, asked), Budget(2), threading.Event())
    ahead, request = (Note(**json.loads(line)) for line in notes.getvalue().splitlines())
    assert (ahead.ahead, ahead.reused, ahead.computed) == (True, 0, 6)
    assert (request.ahead, request.reused) == (False, found)
    done = works([ahead, request], [Press("+", 0.0, math.inf, 1, 1)], {1: Answer(0.1, "a")})
    summary = summarise([Replay((), tuple(done), 1.0, 1.0)])
    assert summary.cancelled_tokens == 6 - found
    assert summary.computed_tokens == 6 + request.computed
    assert (summary.prompt_tokens, summary.reused_tokens) == (request.prompt, found)


def test_where_nothing_is_left_to_read_ahead_nothing_is_noted() -> None:
    notes = StringIO()
    noting = noting_engine(a_model(), notes)
    for _ in range(2):
        noting.read_ahead(snapshot(1, "x = 1 + "), Budget(2), threading.Event())
    assert len(notes.getvalue().splitlines()) == 1


@pytest.mark.parametrize("again", ["x = 1 + ", "y = 2 + "])
def test_what_an_interrupted_pass_lost_is_noted(again: str) -> None:
    model, notes = a_model(), StringIO()
    noting = noting_engine(model, notes)
    forward = model.forward

    def interrupted(*_arguments: object) -> Pass:
        raise Interrupted

    for version, text in enumerate(("x = 1 + ", again)):
        model.forward = forward if version else interrupted  # type: ignore[method-assign]
        noting.complete(snapshot(version, text), Budget(2), threading.Event())
    broken, whole = (Note(**json.loads(line)) for line in notes.getvalue().splitlines())
    assert (broken.version, broken.computed) == (0, 0)
    lost = 0 if again == "x = 1 + " else whole.prompt
    assert whole.computed == whole.prompt - 1 + 2 + lost


@pytest.mark.model("tiny")
def test_the_server_tells_its_work() -> None:
    with serving("tiny", "ngram", finishes=False) as editor:
        replay = editor.play(cursor(), script(0.0, 0.1, 0.2, 0.8, 1.4))
    asked = [work for work in replay.works if not work.note.ahead]
    done = [work for work in asked if not work.cancelled]
    assert len(replay.samples) == 2
    assert 0 < len(done) <= len(asked) <= 5
    assert done[-1].note.version == 5
    assert done[-1].note.reused > 0
    assert all(work.note.reused < work.note.prompt for work in asked)
    assert replay.cpu > 0.0


@pytest.mark.model("tiny")
def test_the_command_types_at_the_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_cli, "_cursors", lambda _files, _count: ([cursor()], "0"))
    monkeypatch.setattr(replay_table, "scripts", lambda _cursors, _seed: [script(0.0, 0.1, 0.2, 0.3, 0.8, 0.9, 1.7)])
    result = CliRunner().invoke(app, ["bench", "replay", "--model", "tiny", "--json"])
    assert result.exit_code == 0, result.stderr
    assert "The keys take 0.1 minutes" in result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["engine"], row["seed"], row["as_typed"]["pauses"]) == ("ngram", 1, 2)
    assert all(wait >= 1e3 * DEBOUNCE for wait in row["finished"]["waits_ms"])
    assert row["finished"]["exact_first_lines"] == 2
    for way in ("as_typed", "finished"):
        assert 0 < row[way]["reused_tokens"] < row[way]["prompt_tokens"]
        assert row[way]["typed_seconds"] == 1.7
