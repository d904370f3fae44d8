"""What the server does while the user rests: what it reads ahead and where, and that it gives way."""

from __future__ import annotations

import asyncio
import gc
import time
from itertools import pairwise
from weakref import ref

import pytest

from ghostdraft.completion.context import DEFAULT_WINDOW, Window
from ghostdraft.completion.types import Snapshot
from ghostdraft.lsp_server import ahead
from tests.fakes import FakeEngine
from tests.lsp_server.harness import PATIENCE, URI, Harness, run

REST = 0.02
LONG = 10_000  # steps that would take a while


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "REST", REST)
    monkeypatch.setattr(ahead, "LONG_REST", REST)
    monkeypatch.setattr(ahead, "on_battery", lambda: False)


async def started(engine: FakeEngine | None = None, options: object = None) -> Harness:
    harness = Harness(engine or FakeEngine())
    harness.engine.gate.set()
    await harness.start(options)
    await harness.ready()
    return harness


def places(harness: Harness) -> list[str]:
    """What stands before the cursor of each snapshot read ahead."""
    return [snapshot.text[: snapshot.cursor] for snapshot in harness.engine.ahead]


def move(harness: Harness, line: int, character: int, uri: str = URI) -> None:
    """The cursor."""
    place = {"line": line, "character": character}
    harness.notify("ghostdraft/didMoveCursor", {"textDocument": {"uri": uri}, "position": place})


async def rest() -> None:
    await asyncio.sleep(10 * REST)


def test_a_short_document_is_read_to_its_end_once_it_is_open() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("a\nb")
        await harness.until(lambda: harness.engine.ahead)
        assert places(harness) == ["a\nb"]

    run(scenario())


def test_of_a_long_document_nothing_is_read_before_the_cursor_is_known() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("x = 1\n" * DEFAULT_WINDOW.prefix)
        await rest()
        assert places(harness) == []
        harness.type(1, 2, "😀y")
        await harness.until(lambda: harness.engine.ahead)
        assert places(harness) == ["x = 1\nx 😀y"]

    run(scenario())


@pytest.mark.parametrize("context", [512, 8192])
def test_short_is_a_document_that_fits_the_chosen_context(context: int) -> None:
    async def scenario() -> None:
        harness = await started(options={"context": context})
        harness.open("x" * (Window.of(context).prefix + 1))
        await rest()
        assert harness.engine.ahead == []
        fitting = "x" * Window.of(context).prefix
        harness.open(fitting, uri="file:///project/fitting.py")
        await harness.until(lambda: harness.engine.ahead)
        assert places(harness) == [fitting]

    run(scenario())


def test_a_document_that_is_opened_again_is_read_where_it_was_left() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("one\ntwo\n" * DEFAULT_WINDOW.prefix)
        harness.type(1, 3, "!")
        harness.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        harness.open("one\ntwo!\n" + "one\ntwo\n" * DEFAULT_WINDOW.prefix)
        await harness.until(lambda: harness.engine.ahead)
        harness.open("on")  # elsewhere it was cut
        await harness.until(lambda: len(harness.engine.ahead) == 2)
        assert places(harness) == ["one\ntwo!", "on"]

    run(scenario())


def test_it_follows_edits_and_requests() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("one\ntwo\n")
        harness.type(0, 3, "!")
        await harness.until(lambda: len(harness.engine.ahead) == 1)
        await harness.result(harness.complete(1, 1))
        await harness.until(lambda: len(harness.engine.ahead) == 2)
        assert places(harness) == ["one!", "one!\nt"]

    run(scenario())


def test_a_request_at_the_place_that_is_being_read_waits_for_that() -> None:
    async def scenario() -> None:
        harness = await started(FakeEngine(steps=100))
        harness.open("one\n")
        await harness.until(lambda: harness.engine.ahead)
        assert await harness.result(harness.complete(1, 0)) is not None
        assert harness.engine.read == 1
        assert harness.engine.interrupted == 0

    run(scenario())


def test_what_was_read_is_not_read_again_behind_a_request_there() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("one\n")
        await rest()
        assert await harness.result(harness.complete(1, 0)) is not None
        await rest()
        assert places(harness) == ["one\n"]

    run(scenario())


def test_what_another_engine_read_is_read_again() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("one\n")
        await harness.until(lambda: harness.engine.ahead)
        await rest()
        harness.notify("workspace/didChangeConfiguration", {"settings": {"context": 8192}})
        await harness.ready()
        move(harness, 1, 0)
        await harness.until(lambda: len(harness.engine.ahead) == 2)
        await rest()
        assert places(harness) == ["one\n", "one\n"]

    run(scenario())


def test_a_document_that_was_read_is_let_go_once_it_is_closed() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("one\n")
        await harness.until(lambda: harness.engine.ahead)
        await rest()
        document = ref(harness.server._documents.get(URI))
        harness.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        gc.collect()
        assert document() is None

    run(scenario())


def test_reading_goes_on_where_the_cursor_went_away_and_back() -> None:
    async def scenario() -> None:
        harness = await started(FakeEngine(steps=200))
        harness.open("one\ntwo")
        await harness.until(lambda: harness.engine.ahead)
        move(harness, 0, 1)
        move(harness, 1, 3)
        await harness.until(lambda: len(harness.engine.ahead) == 2)
        move(harness, 1, 3)
        await harness.until(lambda: harness.engine.read)
        assert harness.engine.interrupted == 1
        assert len(harness.engine.ahead) == 2

    run(scenario())


def test_it_follows_the_cursor_where_the_editor_tells_of_it() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("one\n😀two\n")
        for line, character in ((1, 3), (0, 2)):
            move(harness, line, character)
            await rest()
        move(harness, 0, 0, uri="file:///unknown")
        await rest()
        assert places(harness)[-2:] == ["one\n😀t", "on"]

    run(scenario())


def test_while_one_types_nothing_is_read() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("")
        for column in range(100):
            harness.type(0, column, "x")
        await rest()
        assert places(harness) == ["x" * 100]

    run(scenario())


def test_nothing_is_read_twice_while_nothing_happens() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("a")
        await rest()
        await rest()
        assert len(harness.engine.ahead) == 1

    run(scenario())


def test_a_document_that_was_opened_before_the_model_was_there_is_read_once_it_is() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()
        engine = FakeEngine()

        def load(_model: str, _drafter: str, _context: int) -> FakeEngine:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
            return engine

        harness = Harness(engine, load=load)
        await harness.start()
        harness.open("a")
        await rest()
        assert engine.ahead == []
        gate.set()
        await harness.until(lambda: engine.ahead)

    run(scenario())


def test_never_on_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = await started(FakeEngine(measured=False))
        monkeypatch.setattr(ahead, "on_battery", lambda: True)
        harness.open("a")
        await rest()
        assert harness.engine.ahead == []
        assert not harness.engine.measured

    run(scenario())


@pytest.mark.parametrize(("remembered", "looks"), [(60, 1), (0, 3)])
def test_the_power_is_looked_at_once_in_a_while(remembered: float, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(ahead, "POWER_REMEMBERED", remembered)
        answers = iter((False, False, True))
        looked: list[bool] = []

        def look() -> bool:
            looked.append(next(answers))
            return looked[-1]

        monkeypatch.setattr(ahead, "on_battery", look)
        harness = await started()
        harness.open("")
        for column in range(3):
            harness.type(0, column, "x")
            await rest()
        assert len(looked) == looks
        assert places(harness) == ["x" * (column + 1) for column in range(3) if looks == 1 or column < 2]

    run(scenario())


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("file:///project/.env", {}),
        (URI, {"exclude": ["*.py"]}),
        (URI, {"languages": {"python": {"trigger": "off"}}}),
    ],
)
def test_nothing_is_read_where_nothing_may_be_suggested(uri: str, options: dict[str, object]) -> None:
    async def scenario() -> None:
        harness = await started(options=options)
        harness.open("SECRET=1", uri=uri)
        harness.type(0, 0, "x", uri=uri)
        await rest()
        assert harness.engine.known == []

    run(scenario())


def test_a_closed_document_is_not_read_and_one_opened_anew_is_the_new_one() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("old")
        harness.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        await rest()
        assert harness.engine.ahead == []
        harness.open("old")
        harness.open("new")
        await rest()
        assert places(harness) == ["new"]

    run(scenario())


def test_a_request_elsewhere_interrupts_it_and_is_answered_at_once() -> None:
    async def scenario() -> None:
        harness = await started(FakeEngine(steps=LONG))
        harness.open("abc")
        await harness.until(lambda: harness.engine.ahead)
        asked = time.monotonic()
        assert await harness.result(harness.complete(0, 1)) is not None
        assert time.monotonic() - asked < PATIENCE / 10
        assert harness.engine.interrupted == 1
        assert harness.engine.read == 0

    run(scenario())


def test_a_key_interrupts_it_and_it_begins_again_where_the_key_went() -> None:
    async def scenario() -> None:
        engine = FakeEngine(steps=LONG)
        harness = await started(engine)
        harness.open("abc")
        await harness.until(lambda: engine.ahead)
        engine.steps = 0
        harness.type(0, 3, "d")
        await harness.until(lambda: engine.read == 1)
        assert places(harness) == ["abc", "abcd"]

    run(scenario())


def test_it_waits_behind_a_request_that_runs() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.engine.gate.clear()
        harness.open("abc")
        request = harness.complete(0, 3)
        await rest()
        assert harness.engine.ahead == []
        harness.engine.gate.set()
        assert await harness.result(request) is not None
        await harness.until(lambda: harness.engine.ahead)

    run(scenario())


def test_passes_are_measured_once_after_a_longer_rest_and_a_key_puts_that_off() -> None:
    async def scenario() -> None:
        engine = FakeEngine(measured=False)
        harness = await started(engine)
        harness.open("abc")
        await harness.until(lambda: engine.ahead)
        engine.steps = LONG
        await rest()
        harness.type(0, 3, "d")
        await harness.until(lambda: engine.interrupted == 1)
        assert not engine.measured
        engine.steps = 0
        await harness.until(lambda: engine.measured)

    run(scenario())


def test_nothing_is_measured_in_a_short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(ahead, "LONG_REST", 60)
        harness = await started(FakeEngine(measured=False))
        harness.open("abc")
        await rest()
        assert len(harness.engine.ahead) == 1
        assert not harness.engine.measured

    run(scenario())


def test_edits_lead_from_one_text_to_the_next_whoever_got_it() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("")
        for column, letter in enumerate("abcdef"):
            harness.type(0, column, letter)
            if column % 2:
                await harness.until(lambda: places(harness)[-1:] == ["abcdef"[: column + 1]])  # noqa: B023
            else:
                await harness.result(harness.complete(0, column + 1))
        for before, after in pairwise(harness.engine.known):
            assert replayed(before, after) == after.text

    run(scenario())


def replayed(before: Snapshot, after: Snapshot) -> str:
    text = before.text
    assert after.edits is not None
    for edit in after.edits:
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


class Failing(FakeEngine):
    def read_ahead(self, snapshot: Snapshot, *_: object) -> None:
        raise RuntimeError(snapshot.text)


def test_where_it_fails_the_log_says_so_without_user_text_and_requests_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        harness = await started(Failing())
        harness.open("CANARY")
        await harness.until(lambda: "working ahead failed with RuntimeError" in caplog.text)
        assert await harness.result(harness.complete(0, 6)) is not None

    with caplog.at_level(0):
        run(scenario())
    assert "CANARY" not in caplog.text


def test_after_shutdown_nothing_is_read() -> None:
    async def scenario() -> None:
        harness = await started()
        harness.open("abc")
        await harness.result(harness.ask("shutdown"))
        await rest()
        assert harness.engine.ahead == []

    run(scenario())
