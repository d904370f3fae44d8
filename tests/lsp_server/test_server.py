"""The server's handlers with a fake engine: what it answers, to whom, and what the engine got to see."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ghostdraft.completion.types import Budget, Completion, DecodeStats, Edit, Snapshot, StopReason, Trigger
from ghostdraft.lsp_server import machine
from ghostdraft.lsp_server.host import RESTING, ModelHost, State, Status
from ghostdraft.lsp_server.jsonrpc import Connection, ErrorCode
from ghostdraft.models.progress import Stage
from ghostdraft.models.types import ModelNotFound, WeightsCorrupt
from tests.fakes import FakeEngine
from tests.lsp_server.harness import URI, Harness, inline_completion, run


def open_gate(engine: FakeEngine | None = None) -> FakeEngine:
    engine = engine or FakeEngine()
    engine.gate.set()
    return engine


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_null(item) for item in value.values())
    return any(map(has_null, value)) if isinstance(value, list) else value is None


def test_capabilities_and_encoding() -> None:
    async def scenario() -> None:
        harness = Harness()
        offered = {"general": {"positionEncodings": ["utf-7", "utf-8", "utf-16"]}}
        result = await harness.start(capabilities=offered)
        assert result["capabilities"]["positionEncoding"] == "utf-8"
        assert result["capabilities"]["inlineCompletionProvider"] == {}
        assert result["capabilities"]["textDocumentSync"] == {"openClose": True, "change": 2}
        assert result["serverInfo"]["name"] == "ghostdraft"

    run(scenario())


def test_item_has_an_explicit_range_a_command_with_an_id_and_no_nulls() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate(FakeEngine(says=lambda _: "return 1")))
        await harness.start()
        harness.open("def f():\n    '😀'; \n")
        answer = await harness.answer(harness.complete(1, 10))
        place = {"line": 1, "character": 10}
        (item,) = answer["result"]["items"]
        assert not has_null(answer["result"])
        assert item["insertText"] == "return 1"
        assert item["range"] == {"start": place, "end": place}
        assert item["command"]["command"] == "ghostdraft.accepted"
        accepted = {"command": "ghostdraft.accepted", "arguments": item["command"]["arguments"]}
        assert await harness.result(harness.ask("workspace/executeCommand", accepted)) is None
        ((snapshot, budget),) = harness.engine.seen
        assert snapshot.text[: snapshot.cursor].endswith("'😀'; ")
        assert budget.deadline is None

    run(scenario())


class ToTheEndOfTheLine(FakeEngine):
    """Replaces the rest of the cursor's line."""

    def complete(self, snapshot: Snapshot, *_: object) -> Completion:
        end = snapshot.text.index("\n", snapshot.cursor)
        text = "1, 2)" + snapshot.text[snapshot.cursor : end]
        return Completion(text, snapshot.cursor, end, StopReason.SUFFIX, DecodeStats(), "1, 2")


@pytest.mark.parametrize(("encoding", "width"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_range_to_the_end_of_the_line_in_each_encoding(encoding: str, width: int) -> None:
    async def scenario() -> None:
        harness = Harness(ToTheEndOfTheLine())
        await harness.start(capabilities={"general": {"positionEncodings": [encoding]}})
        harness.open("f(😀)😀\n")
        result = await harness.result(harness.complete(0, 2 + width))
        start, end = result["items"][0]["range"].values()
        assert start == {"line": 0, "character": 2 + width}
        assert end == {"line": 0, "character": 3 + 2 * width}

    run(scenario())


def test_the_text_is_the_one_the_request_was_read_with() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start()
        await harness.ready()
        harness.open("a\n")
        harness.type(0, 1, "b")
        request = harness.complete(0, 2)
        harness.type(0, 0, "zzz", version=3)  # all read before the event loop turns once
        result = await harness.result(request)
        assert result["items"][0]["insertText"] == "ab"
        assert harness.engine.seen[0][0].version == 2

    run(scenario())


def test_edits_lead_from_one_text_the_engine_saw_to_the_next() -> None:
    async def scenario() -> None:
        harness = Harness(FakeEngine())
        await harness.start()
        await harness.ready()
        harness.open("")
        first = harness.complete(0, 0)
        await harness.until(lambda: harness.engine.seen)
        requests = [first]
        for column, letter in enumerate("abcd"):
            harness.type(0, column, letter)
            requests.append(harness.complete(0, column + 1))
            await asyncio.sleep(0.01 * column)
        harness.engine.gate.set()
        for request in requests[:-1]:
            assert (await harness.error(request))["code"] == ErrorCode.REQUEST_CANCELLED
        assert (await harness.result(requests[-1]))["items"][0]["insertText"] == "abcd"
        snapshots = harness.engine.known
        assert snapshots[0].edits is None
        for before, after in pairwise(snapshots):
            assert after.edits is not None
            assert replay(before.text, after.edits) == after.text

    run(scenario())


def replay(text: str, edits: tuple[Edit, ...]) -> str:
    for edit in edits:
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def test_the_newest_request_of_a_document_wins_and_others_are_left_alone() -> None:
    async def scenario() -> None:
        harness = Harness(FakeEngine())
        await harness.start()
        await harness.ready()
        other = "file:///project/other.py"
        harness.open("a")
        harness.open("b", uri=other)
        old, elsewhere = harness.complete(0, 1), harness.complete(0, 1, uri=other)
        new = harness.complete(0, 1)
        assert (await harness.error(old))["code"] == ErrorCode.REQUEST_CANCELLED
        harness.engine.gate.set()
        assert (await harness.result(elsewhere))["items"][0]["insertText"] == "b"
        assert (await harness.result(new))["items"][0]["insertText"] == "a"

    run(scenario())


def test_cancelling_stops_the_engine_and_is_answered_at_once() -> None:
    async def scenario() -> None:
        harness = Harness(FakeEngine())
        await harness.start()
        await harness.ready()
        harness.open("a")
        request = harness.complete(0, 1)
        await harness.until(lambda: harness.engine.seen)
        harness.cancel(request)
        assert (await harness.error(request))["code"] == ErrorCode.REQUEST_CANCELLED
        await harness.until(lambda: harness.engine.cancelled == 1)
        assert harness.engine.interrupted == 1

    run(scenario())


def test_cancelling_what_waits_for_its_turn_leaves_what_runs_alone() -> None:
    async def scenario() -> None:
        harness = Harness(FakeEngine())
        await harness.start()
        await harness.ready()
        harness.open("a")
        harness.open("b", uri="file:///other.py")
        running = harness.complete(0, 1)
        await harness.until(lambda: harness.engine.seen)
        waiting = harness.complete(0, 1, uri="file:///other.py")
        harness.cancel(waiting)
        assert (await harness.error(waiting))["code"] == ErrorCode.REQUEST_CANCELLED
        assert harness.engine.interrupted == harness.engine.cancelled == 0
        harness.engine.gate.set()
        await harness.result(running)

    run(scenario())


def test_a_burst_of_requests_fired_and_cancelled_is_answered_in_full() -> None:
    async def scenario() -> None:
        harness = Harness(FakeEngine())
        await harness.start()
        await harness.ready()
        harness.open("a")
        requests = []
        for _ in range(1000):
            requests.append(harness.complete(0, 1, invoked=False))
            harness.cancel(requests[-1])
        errors = [await harness.error(request) for request in requests]
        assert {error["code"] for error in errors} == {ErrorCode.REQUEST_CANCELLED}
        assert len(harness.engine.seen) <= 1

    run(scenario())


def test_closing_a_document_cancels_its_request() -> None:
    async def scenario() -> None:
        harness = Harness(FakeEngine())
        await harness.start()
        await harness.ready()
        harness.open("a")
        request = harness.complete(0, 1)
        harness.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        assert (await harness.error(request))["code"] == ErrorCode.REQUEST_CANCELLED

    run(scenario())


def test_a_buffer_whose_uri_is_none_disturbs_no_other() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start()
        await harness.ready()
        harness.open("a")
        harness.open("b", uri="untitled://[x")
        assert (await harness.result(harness.complete(0, 1)))["items"]
        assert (await harness.result(harness.complete(0, 1, uri="untitled://[x")))["items"]

    run(scenario())


def test_who_waits_for_a_model_that_is_exchanged_waits_for_the_next() -> None:
    async def scenario() -> None:
        gates = {"a": asyncio.Event(), "b": asyncio.Event()}
        loop = asyncio.get_running_loop()
        engine = open_gate()

        def load(model: str, _drafter: str, _context: int) -> FakeEngine:
            asyncio.run_coroutine_threadsafe(gates[model].wait(), loop).result()
            return engine

        host = ModelHost(load, lambda _status: None)
        host.load("a", "none", 2048)
        waiting = asyncio.create_task(host.ready())
        await asyncio.sleep(0.01)
        host.load("b", "none", 2048)
        gates["a"].set()
        await asyncio.sleep(0.05)
        assert not waiting.done()
        gates["b"].set()
        await waiting

    run(scenario())


def test_automatic_is_answered_with_null_while_loading_and_invoked_waits() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()
        engine = open_gate()

        def load(_model: str, _drafter: str, _context: int) -> FakeEngine:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
            return engine

        harness = Harness(load=load)
        await harness.start()
        harness.open("a")
        assert await harness.result(harness.complete(0, 1, invoked=False)) is None
        waiting = harness.complete(0, 1)
        gate.set()
        assert (await harness.result(waiting))["items"][0]["insertText"] == "a"
        states = [status["state"] for status in harness.notifications("ghostdraft/status")]
        assert states == ["loading", "ready"]

    run(scenario())


class GpuModels:
    """Engines on a GPU that give up after a moment, and what they were asked."""

    def __init__(self, patience: float) -> None:
        self.made: list[FakeEngine] = []
        self.told: list[Status] = []
        self.host = ModelHost(self._load, self.told.append, patience)

    def _load(self, _model: str, _drafter: str, _context: int) -> FakeEngine:
        engine = open_gate()
        engine.on_gpu = True
        self.made.append(engine)
        return engine

    async def complete(self) -> str:
        self.host.wake()
        await self.host.ready()
        snapshot = Snapshot("file:///a", 1, "python", "a", 1)
        return (await self.host.complete(lambda: snapshot, Budget(1))).text

    async def rested(self) -> None:
        async with asyncio.timeout(5):
            while not self.made[-1].closed:
                await asyncio.sleep(0.005)


def test_an_idle_model_gives_the_gpus_memory_back_and_the_next_request_loads_it_again() -> None:
    async def scenario() -> None:
        models = GpuModels(patience=0.02)
        models.host.load("a", "none", 2048)
        assert await models.complete() == "a"
        await models.rested()
        assert models.told[-1] == Status(State.READY, "a", RESTING)
        assert await models.complete() == "a"
        assert [engine.closed for engine in models.made] == [True, False]
        await models.rested()

    run(scenario())


def test_requests_keep_a_model_awake() -> None:
    async def scenario() -> None:
        models = GpuModels(patience=0.3)
        models.host.load("a", "none", 2048)
        for _ in range(8):
            await models.complete()
            await asyncio.sleep(0.06)
        assert [engine.closed for engine in models.made] == [False]

    run(scenario())


def test_a_model_never_asked_rests_too_and_one_on_the_cpu_never_does() -> None:
    async def scenario() -> None:
        models, on_cpu = GpuModels(patience=0.02), open_gate()
        models.host.load("a", "none", 2048)
        await models.host.ready()
        host = ModelHost(lambda *_: on_cpu, lambda _status: None, patience=0.01)
        host.load("a", "none", 2048)
        await models.rested()
        await asyncio.sleep(0.05)
        assert not on_cpu.closed

    run(scenario())


def test_a_model_that_is_exchanged_or_switched_off_leaves_the_gpu() -> None:
    async def scenario() -> None:
        models = GpuModels(patience=60)
        for leave in (lambda: models.host.load("b", "none", 2048), models.host.unload):
            models.host.load("a", "none", 2048)
            await models.host.ready()
            left = models.made[-1]
            leave()
            async with asyncio.timeout(5):
                while not left.closed:
                    await asyncio.sleep(0.005)
        assert models.host.status.state is State.OFF

    run(scenario())


def test_a_load_that_was_superseded_leaves_the_gpu_before_the_next_begins() -> None:
    async def scenario() -> None:
        models, gate, left = GpuModels(patience=60), threading.Event(), []

        def load(model: str, drafter: str, context: int) -> FakeEngine:
            gate.wait(5)
            left.append([engine.closed for engine in models.made])
            return models._load(model, drafter, context)

        host = ModelHost(load, lambda _status: None)
        host.load("a", "none", 2048)
        await asyncio.sleep(0.01)
        host.unload()
        host.load("b", "none", 2048)
        await asyncio.sleep(0.01)
        last = host.load("c", "none", 2048)
        gate.set()
        await last
        assert left == [[], [True]]
        assert [engine.closed for engine in models.made] == [True, False]

    run(scenario())


def test_an_automatic_request_wakes_the_model_and_is_answered_with_null() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        harness.engine.on_gpu = True
        harness.server._keeper.host._patience = 0.02
        await harness.start()
        await harness.ready()
        harness.open("a")
        await harness.until(lambda: harness.engine.closed)
        assert await harness.result(harness.complete(0, 1, invoked=False)) is None
        states = [status["state"] for status in harness.notifications("ghostdraft/status")]
        assert states[:4] == ["loading", "ready", "ready", "loading"]
        assert (await harness.result(harness.complete(0, 1)))["items"][0]["insertText"] == "a"

    run(scenario())


def test_a_waiting_request_can_be_cancelled_while_the_model_loads() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()

        def load(_model: str, _drafter: str, _context: int) -> FakeEngine:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
            return FakeEngine()

        harness = Harness(load=load)
        await harness.start()
        harness.open("a")
        waiting = harness.complete(0, 1)
        await asyncio.sleep(0.01)
        harness.cancel(waiting)
        assert (await harness.error(waiting))["code"] == ErrorCode.REQUEST_CANCELLED
        gate.set()

    run(scenario())


def test_automatic_has_a_deadline_from_its_language_s_budget() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start({"languages": {"python": {"budget_ms": 200, "max_tokens": 7}}})
        await harness.ready()
        harness.open("a")
        await harness.result(harness.complete(0, 1, invoked=False))
        budget = harness.engine.seen[0][1]
        assert budget.max_tokens == 7
        assert budget.deadline is not None

    run(scenario())


def test_triggers_per_language() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        languages = {"python": {"trigger": "invoked"}, "markdown": {"trigger": "off"}}
        await harness.start({"languages": languages})
        await harness.ready()
        harness.open("a")
        assert await harness.result(harness.complete(0, 1, invoked=False)) is None
        assert await harness.result(harness.complete(0, 1)) is not None
        harness.open("a", uri="file:///a.md", language="markdown")
        assert await harness.result(harness.complete(0, 1, uri="file:///a.md", invoked=False)) is None
        error = await harness.error(harness.complete(0, 1, uri="file:///a.md"))
        assert error["code"] == ErrorCode.REQUEST_FAILED
        assert "settings" in error["message"]

    run(scenario())


def test_secret_files_reach_no_engine_neither_as_document_nor_as_other_buffer() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start({"exclude": ["vendor/**"]})
        await harness.ready()
        secret, vendored = "file:///project/.env", "file:///project/vendor/a.py"
        harness.open("TOKEN=1", uri=secret, language="dotenv")
        harness.open("vendored", uri=vendored)
        harness.open("open", uri="file:///project/b.py")
        harness.open("a")
        assert await harness.result(harness.complete(0, 1, uri=secret, invoked=False)) is None
        assert "secret" in (await harness.error(harness.complete(0, 1, uri=secret)))["message"]
        await harness.result(harness.complete(0, 1))
        ((snapshot, _),) = harness.engine.seen
        assert [other.text for other in snapshot.others] == ["open"]

    run(scenario())


def test_other_buffers_come_most_recently_edited_first() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start()
        await harness.ready()
        for name in "bcd":
            harness.open(name, uri=f"file:///{name}.py")
        harness.open("a")
        harness.type(0, 1, "!", uri="file:///b.py")
        await harness.result(harness.complete(0, 1))
        assert [other.text for other in harness.engine.seen[0][0].others] == ["b!", "d", "c"]

    run(scenario())


def test_an_item_extends_the_one_selected_in_the_list() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate(FakeEngine(says=lambda snapshot: "|" + snapshot.text[: snapshot.cursor])))
        await harness.start()
        await harness.ready()
        harness.open("os.pa\nx")
        await harness.result(harness.complete(0, 5))
        selected_range = {"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 5}}
        selected = {"range": selected_range, "text": "path"}
        (item,) = (await harness.result(harness.complete(0, 5, selectedCompletionInfo=selected)))["items"]
        assert item["insertText"] == "path|os.path"
        assert item["range"] == selected_range
        harness.type(0, 5, "t")
        await harness.result(harness.complete(0, 6))
        assert [snapshot.edits for snapshot, _ in harness.engine.seen] == [None, None, None]

    run(scenario())


def test_malformed_params_and_unknown_documents_get_clear_errors() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start()
        harness.open("a")
        wanted = inline_completion(0, 1)
        for broken, named in [
            (None, "params"),
            ({}, "params.textDocument"),
            ({**wanted, "position": {"line": "0", "character": 1}}, "params.position.line"),
            ({**wanted, "position": {"line": True, "character": 1}}, "params.position.line"),
            ({**wanted, "context": {}}, "params.context.triggerKind"),
        ]:
            error = await harness.error(harness.ask("textDocument/inlineCompletion", broken))
            assert error["code"] == ErrorCode.INVALID_PARAMS
            assert f"`{named}`" in error["message"]
        error = await harness.error(harness.complete(0, 0, uri="file:///not-open.py"))
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "didOpen" in error["message"]
        assert await harness.result(harness.complete(0, 1)) is not None

    run(scenario())


@pytest.mark.parametrize("position", [(0, 999), (999, 0), (0, 0)])
def test_positions_past_the_end_are_clamped_and_an_empty_file_is_fine(position: tuple[int, int]) -> None:
    async def scenario() -> None:
        harness = Harness(open_gate(FakeEngine(says=lambda _: "x")))
        await harness.start()
        harness.open("")
        (item,) = (await harness.result(harness.complete(*position)))["items"]
        assert item["range"]["start"] == {"line": 0, "character": 0}

    run(scenario())


def test_the_protocol_s_life() -> None:
    async def scenario() -> None:
        harness = Harness()
        assert (await harness.error(harness.complete(0, 0)))["code"] == ErrorCode.SERVER_NOT_INITIALIZED
        await harness.start()
        assert (await harness.error(harness.ask("initialize", {"capabilities": {}})))[
            "code"
        ] == ErrorCode.INVALID_REQUEST
        assert (await harness.error(harness.ask("no/such")))["code"] == ErrorCode.METHOD_NOT_FOUND
        harness.notify("$/setTrace", {"value": "off"})
        harness.server.receive(b"{broken")
        assert harness.sent[-1]["error"]["code"] == ErrorCode.PARSE_ERROR
        assert harness.sent[-1]["id"] is None
        harness.server.receive(b'{"jsonrpc": "2.0"}')
        assert harness.sent[-1]["error"]["code"] == ErrorCode.INVALID_REQUEST
        await harness.ready()
        harness.open("a")
        running = harness.complete(0, 1)
        assert await harness.result(harness.ask("shutdown")) is None
        assert (await harness.error(running))["code"] == ErrorCode.REQUEST_CANCELLED
        assert (await harness.error(harness.complete(0, 1)))["code"] == ErrorCode.INVALID_REQUEST
        harness.notify("exit")
        assert harness.server.exited
        assert harness.server.status == 0

    run(scenario())


def test_exit_without_shutdown_is_a_failure() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.notify("exit")
        assert harness.server.exited
        assert harness.server.status == 1

    run(scenario())


def test_progress_while_the_model_loads() -> None:
    async def scenario() -> None:
        harness = Harness()
        await harness.start(capabilities={"window": {"workDoneProgress": True}})
        create = (await harness.until(lambda: requests(harness, "window/workDoneProgress/create")))[0]
        assert not harness.notifications("$/progress")
        reply(harness, create, None)
        await harness.until(lambda: len(harness.notifications("$/progress")) == 2)
        begin, end = harness.notifications("$/progress")
        assert begin["token"] == end["token"] == create["params"]["token"]
        assert (begin["value"]["kind"], end["value"]["kind"]) == ("begin", "end")
        assert "starter" in begin["value"]["title"]

    run(scenario())


@pytest.mark.parametrize("answer", [{"result": None}, {"error": {"code": 1, "message": ""}}, None])
def test_what_the_client_was_asked_is_forgotten_however_it_ends(answer: dict[str, object] | None) -> None:
    async def scenario() -> None:
        sent: list[bytes] = []
        connection = Connection(lambda _: lambda _: None, sent.append)
        asking = asyncio.create_task(connection.request("window/workDoneProgress/create", {}))
        await asyncio.sleep(0)
        reply = json.dumps({"jsonrpc": "2.0", "id": json.loads(sent[0])["id"], **(answer or {"result": None})}).encode()
        if answer is None:
            asking.cancel()
        else:
            connection.receive(reply)
        await asyncio.wait([asking])
        assert not connection._asked
        connection.receive(reply)  # too late
        assert len(sent) == 1

    run(scenario())


def requests(harness: Harness, method: str) -> list[dict[str, Any]]:
    return [message for message in harness.sent if message.get("method") == method and "id" in message]


def reply(harness: Harness, request: dict[str, Any], result: object) -> None:
    harness.server.receive(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode())


class Absent:
    """A store without the model, until it is pulled."""

    def __init__(self) -> None:
        self.pulled: list[str] = []
        self.fails = False

    def load(self, model: str, _drafter: str, _context: int) -> FakeEngine:
        if model not in self.pulled:
            raise ModelNotFound(f"{model} is not on this disk yet. Fetch it: ghostdraft models pull {model}")
        return open_gate()

    def pull(self, model: str, watch: Any) -> None:
        watch.advanced(Stage.DOWNLOADING, 1, 2)
        if self.fails:
            raise WeightsCorrupt("The checksum differs.")
        self.pulled.append(model)


def test_a_missing_model_is_offered_and_pulled_once_the_user_agrees() -> None:
    async def scenario() -> None:
        store = Absent()
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start()
        harness.open("a")
        offer = (await harness.until(lambda: requests(harness, "window/showMessageRequest")))[0]
        assert "starter" in offer["params"]["message"]
        assert "491 MB" in offer["params"]["message"]
        error = await harness.error(harness.complete(0, 1))
        assert "ghostdraft models pull starter" in error["message"]
        assert await harness.result(harness.complete(0, 1, invoked=False)) is None
        reply(harness, offer, {"title": "Pull"})
        await harness.ready()
        assert store.pulled == ["starter"]
        assert await harness.result(harness.complete(0, 1)) is not None

    run(scenario())


def test_who_asks_while_a_model_is_pulled_waits_without_work() -> None:
    async def scenario() -> None:
        store, gate = Absent(), threading.Event()

        def pull(model: str, watch: Any) -> None:
            gate.wait()
            store.pull(model, watch)

        harness = Harness(load=store.load, pull=pull)
        await harness.start()
        await harness.until(lambda: requests(harness, "window/showMessageRequest"))
        harness.open("a")
        pulled = harness.ask("workspace/executeCommand", {"command": "ghostdraft.pull"})
        asked = harness.complete(0, 1)
        before = time.process_time()
        await asyncio.sleep(0.5)
        worked = time.process_time() - before
        gate.set()
        assert worked < 0.25
        assert await harness.result(asked) is not None
        assert await harness.result(pulled) is None

    run(scenario())


def test_pulling_by_command_and_its_failure() -> None:
    async def scenario() -> None:
        store = Absent()
        store.fails = True
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start({"model": "tiny"})
        reply(harness, (await harness.until(lambda: requests(harness, "window/showMessageRequest")))[0], None)
        pull = {"command": "ghostdraft.pull"}
        error = await harness.error(harness.ask("workspace/executeCommand", pull))
        assert error == {"code": ErrorCode.REQUEST_FAILED, "message": "The checksum differs."}
        assert harness.notifications("ghostdraft/status")[-1]["state"] == "error"
        store.fails = False
        assert await harness.result(harness.ask("workspace/executeCommand", pull)) is None
        assert {"state": "ready", "model": "tiny"}.items() <= harness.notifications("ghostdraft/status")[-1].items()

    run(scenario())


class Gated(Absent):
    """Pulls each model once its gate is open."""

    def __init__(self, *models: str) -> None:
        super().__init__()
        self.gates = {model: threading.Event() for model in models}
        self.begun: list[str] = []

    def pull(self, model: str, watch: Any) -> None:
        self.begun.append(model)
        self.gates[model].wait(5)
        super().pull(model, watch)


def choose(harness: Harness, **settings: object) -> None:
    harness.notify("workspace/didChangeConfiguration", {"settings": settings})


async def click_pull(harness: Harness, offers: int) -> None:
    """On the last of so many offers."""
    await harness.until(lambda: len(requests(harness, "window/showMessageRequest")) == offers)
    reply(harness, requests(harness, "window/showMessageRequest")[-1], {"title": "Pull"})


def last_status(harness: Harness) -> tuple[str, str]:
    status = harness.notifications("ghostdraft/status")[-1]
    return status["state"], status["model"]


def test_a_model_chosen_while_another_is_pulled_is_pulled_and_loaded_as_well() -> None:
    async def scenario() -> None:
        store = Gated("starter", "tiny")
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start()
        await click_pull(harness, offers=1)
        await harness.until(lambda: store.begun)
        choose(harness, model="tiny")
        await click_pull(harness, offers=2)
        store.gates["tiny"].set()
        await harness.ready()
        assert last_status(harness) == ("ready", "tiny")
        store.gates["starter"].set()
        await harness.until(lambda: store.pulled == ["tiny", "starter"])

    run(scenario())


def test_what_changes_beside_the_model_while_it_is_pulled_holds_once_it_is() -> None:
    async def scenario() -> None:
        store = Gated("starter")
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start()
        await click_pull(harness, offers=1)
        await harness.until(lambda: store.begun)
        choose(harness, context=8192)
        await click_pull(harness, offers=2)
        store.gates["starter"].set()
        await harness.ready()
        assert harness.server._keeper.host.wanted == ("starter", "ngram", 8192)
        assert store.begun == ["starter"]

    run(scenario())


def test_an_offer_that_is_taken_late_pulls_what_it_offered() -> None:
    async def scenario() -> None:
        store = Gated("starter", "tiny")
        store.pulled.append("tiny")
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start()
        await harness.until(lambda: requests(harness, "window/showMessageRequest"))
        choose(harness, model="tiny")
        await harness.ready()
        await click_pull(harness, offers=1)
        await harness.until(lambda: store.begun)
        store.gates["starter"].set()
        await harness.until(lambda: store.pulled == ["tiny", "starter"])
        assert last_status(harness) == ("ready", "tiny")

    run(scenario())


@pytest.mark.parametrize("chosen", ["tiny", None])
def test_a_pull_that_fails_late_leaves_the_status_of_what_was_chosen_meanwhile(chosen: str | None) -> None:
    async def scenario() -> None:
        store = Gated("starter")
        store.pulled.append("tiny")
        store.fails = True
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start()
        await click_pull(harness, offers=1)
        await harness.until(lambda: store.begun)
        choose(harness, **({"model": chosen} if chosen else {"languages": {"default": {"trigger": "off"}}}))
        expected = ("ready", chosen) if chosen else ("off", "")
        await harness.until(lambda: last_status(harness) == expected)
        store.gates["starter"].set()
        await harness.until(lambda: harness.notifications("window/showMessage"))
        assert last_status(harness) == expected

    run(scenario())


def test_a_pull_that_fails_late_leaves_a_model_found_meanwhile_as_it_is() -> None:
    async def scenario() -> None:
        store = Gated("starter")
        store.fails = True
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start()
        await click_pull(harness, offers=1)
        await harness.until(lambda: store.begun)
        store.pulled.append("starter")
        choose(harness, context=8192)
        await harness.ready()
        store.gates["starter"].set()
        await harness.until(lambda: harness.notifications("window/showMessage"))
        assert last_status(harness) == ("ready", "starter")

    run(scenario())


def test_a_load_that_fails_late_is_neither_told_nor_offered() -> None:
    async def scenario() -> None:
        gate = threading.Event()

        def load(model: str, *_: object) -> FakeEngine:
            if model == "starter":
                gate.wait(5)
                raise ModelNotFound("It is not there.")
            return open_gate()

        harness = Harness(load=load)
        await harness.start()
        choose(harness, model="tiny")
        gate.set()
        await harness.ready()
        await asyncio.sleep(0.02)
        assert not requests(harness, "window/showMessageRequest")
        assert not harness.notifications("window/showMessage")

    run(scenario())


def test_a_model_pulled_elsewhere_is_found_when_asked_for_by_hand() -> None:
    async def scenario() -> None:
        store = Absent()
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start()
        await harness.until(lambda: requests(harness, "window/showMessageRequest"))
        harness.open("a")
        store.pulled.append("starter")
        assert await harness.result(harness.complete(0, 1, invoked=False)) is None
        assert await harness.result(harness.complete(0, 1)) is not None
        assert harness.notifications("ghostdraft/status")[-1]["state"] == "ready"

    run(scenario())


def test_an_unknown_model_is_told_and_not_offered() -> None:
    async def scenario() -> None:
        store = Absent()
        harness = Harness(load=store.load, pull=store.pull)
        await harness.start({"model": "no-such"})
        (message,) = await harness.until(lambda: harness.notifications("window/showMessage"))
        assert "no-such" in message["message"]
        assert not requests(harness, "window/showMessageRequest")

    run(scenario())


def test_changed_settings_exchange_the_model_and_off_unloads_it() -> None:
    async def scenario() -> None:
        loaded: list[tuple[str, str, int]] = []

        def load(model: str, drafter: str, context: int) -> FakeEngine:
            loaded.append((model, drafter, context))
            return open_gate()

        harness = Harness(load=load)
        await harness.start()
        await harness.ready()
        for settings in (
            {"ghostdraft": {"model": "tiny"}},
            {"ghostdraft": {"model": "tiny", "max_tokens": 5}},
            {"drafter": "none"},
            {"drafter": "none", "context": 8192},
        ):
            harness.notify("workspace/didChangeConfiguration", {"settings": settings})
            await harness.ready()
        expected = [("starter", "ngram", 2048), ("tiny", "ngram", 2048), ("starter", "none", 2048)]
        assert loaded == [*expected, ("starter", "none", 8192)]
        off = {"settings": {"languages": {"default": {"trigger": Trigger.OFF}}}}
        harness.notify("workspace/didChangeConfiguration", off)
        assert harness.notifications("ghostdraft/status")[-1]["state"] == "off"
        harness.notify("workspace/didChangeConfiguration", {"settings": None})
        assert harness.notifications("ghostdraft/status")[-1]["state"] == "off"
        harness.notify("workspace/didChangeConfiguration", {"settings": {}})
        await harness.ready()

    run(scenario())


def test_bad_settings_become_messages_and_the_server_goes_on() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start({"max_tokens": "many", "modell": "tiny"})
        (message,) = [params["message"] for params in harness.notifications("window/showMessage")]
        assert 'not "many"' in message
        assert "`modell`" in message
        await harness.ready()

    run(scenario())


def test_many_bad_settings_are_one_message() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate())
        await harness.start({f"key{number}": number for number in range(500)})
        (message,) = [params["message"] for params in harness.notifications("window/showMessage")]
        assert message.endswith("... and 480 more.")
        assert len(message) < 4000

    run(scenario())


def test_a_workspace_can_only_tighten(tmp_path: Path) -> None:
    async def scenario() -> None:
        loaded = []

        def load(model: str, drafter: str, context: int) -> FakeEngine:
            loaded.append((model, drafter, context))
            return open_gate()

        (tmp_path / ".ghostdraft.toml").write_text(
            'model = "evil"\ndrafter = "none"\ncontext = 512\nexclude = ["*.gen.py"]\npath = "/bin/sh"\n'
            "[languages.python]\nbudget_ms = 60000\nmax_tokens = 3\n"
        )
        harness = Harness(load=load)
        folder = {"uri": tmp_path.as_uri(), "name": "w"}
        workspace = {"model": "evil", "languages": {"python": {"max_tokens": 1000}}}
        await harness.start({"workspace": workspace}, workspaceFolders=[folder])
        await harness.ready()
        assert loaded == [("starter", "ngram", 2048)]
        (message,) = [params["message"] for params in harness.notifications("window/showMessage")]
        assert message.count("\n") == 7
        options = harness.server._settings.options(tmp_path / "a.py")
        assert options.budgets.of("python").max_tokens == 3
        assert options.budgets.of("python").budget_ms == options.budgets.default.budget_ms
        assert options.policy.excluded == ("*.gen.py",)
        assert harness.server._settings.options(Path("/elsewhere/a.py")).policy.excluded == ()

    run(scenario())


class Failing(FakeEngine):
    def complete(self, snapshot: Snapshot, *_: object) -> Completion:
        raise RuntimeError(snapshot.text)


def test_a_failing_engine_is_an_internal_error_without_user_text(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        harness = Harness(Failing())
        await harness.start()
        harness.open("CANARY")
        error = await harness.error(harness.complete(0, 1))
        assert error["code"] == ErrorCode.INTERNAL_ERROR
        assert "CANARY" not in error["message"]
        assert (await harness.error(harness.complete(0, 1)))["code"] == ErrorCode.INTERNAL_ERROR

    with caplog.at_level(0):
        run(scenario())
    assert "RuntimeError" in caplog.text
    assert "CANARY" not in caplog.text


def test_how_a_model_runs_is_told_with_the_status() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.engine.note = "It runs slowly."
        await harness.start()
        await harness.ready()
        assert harness.notifications("ghostdraft/status")[-1]["message"] == "It runs slowly."

    run(scenario())


def test_what_changes_about_a_model_is_told_with_the_status() -> None:
    async def scenario() -> None:
        harness = Harness(open_gate(FakeEngine()))
        await harness.start()
        await harness.ready()
        harness.engine.note = "It is slow now."
        harness.open("x = 1\n")
        await harness.result(harness.complete(0, 0))
        assert harness.notifications("ghostdraft/status")[-1]["message"] == "It is slow now."

    run(scenario())


def test_an_idle_gpu_is_told_with_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "has_accelerator", lambda: True)
    monkeypatch.setattr(machine, "has_torch", lambda: False)

    async def scenario() -> None:
        harness = Harness()
        await harness.start()
        await harness.ready()
        assert 'pip install "ghostdraft[gpu]"' in harness.notifications("ghostdraft/status")[-1]["message"]

    run(scenario())
