"""The whole server with the `tiny` model over a real process: an editor's day, bursts, idleness, start-up."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psutil
import pytest

from tests.e2e.stdio_client import SERVE, StdioClient, did_change, did_open, inline_completion, seconds_until_ready

pytestmark = pytest.mark.model("tiny")

URI = "file:///project/shapes.py"
CODE = """class Rectangle:
    def __init__(self, width, height):
        self.width = width
        self.height = height

    def area(self):
        return self.width * self.height


class Square:
    def __init__(self, side):
        self.side = side

    def area(self):
"""
REQUEST_CANCELLED = -32800


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "config.toml"
    path.write_text('model = "tiny"\n')
    return {"GHOSTDRAFT_CONFIG": str(path)}


@pytest.fixture
def client(config: dict[str, str]) -> Iterator[StdioClient]:
    with StdioClient(SERVE, env=config) as client:
        client.initialize()
        client.write(did_open(URI, CODE))
        client.wait_until_ready()
        yield client


def test_open_edit_complete_cancel_shutdown(client: StdioClient) -> None:
    line = CODE.count("\n")
    client.write(did_change(URI, line, 0, "        return self."))
    wanted = inline_completion(URI, line, 20)
    (item,) = client.result(client.ask("textDocument/inlineCompletion", wanted))["items"]
    assert item["insertText"].startswith("side")
    assert item["range"] == {"start": wanted["position"], "end": wanted["position"]}
    accepted = {"command": item["command"]["command"], "arguments": item["command"]["arguments"]}
    assert client.result(client.ask("workspace/executeCommand", accepted)) is None
    cancelled = client.ask("textDocument/inlineCompletion", inline_completion(URI, 1, 8))
    client.notify("$/cancelRequest", {"id": cancelled})
    assert client.answer(cancelled)["error"]["code"] == REQUEST_CANCELLED
    assert client.exit() == 0
    assert client.garbage == b""
    assert b"Traceback" not in client.log


def test_an_edit_and_a_request_in_one_write(client: StdioClient) -> None:
    line = CODE.count("\n")
    request = client.request("textDocument/inlineCompletion", inline_completion(URI, line, 20))
    client.write(did_change(URI, line, 0, "        return self."), request, did_change(URI, 0, 0, "#" * 100 + "\n", 3))
    (item,) = client.result(request["id"])["items"]
    assert item["range"]["start"] == {"line": line, "character": 20}
    assert item["insertText"].startswith("side")


def test_a_thousand_requests_fired_and_cancelled_are_answered_and_the_process_is_idle_after(
    client: StdioClient,
) -> None:
    requests = []
    for turn in range(1000):
        request = client.request(
            "textDocument/inlineCompletion", inline_completion(URI, 1 + turn % 12, 4, turn % 2 == 0)
        )
        client.write(request, {"method": "$/cancelRequest", "params": {"id": request["id"]}})
        requests.append(request["id"])
    answers = [client.answer(request) for request in requests]
    cancelled = [answer for answer in answers if answer.get("error", {}).get("code") == REQUEST_CANCELLED]
    assert len(cancelled) >= 990
    process = psutil.Process(client.process.pid)
    time.sleep(1)
    before = sum(process.cpu_times()[:2])
    time.sleep(1)
    assert sum(process.cpu_times()[:2]) - before < 0.1


def test_initialize_is_answered_within_a_second_and_without_torch(config: dict[str, str]) -> None:
    taken = []
    for _ in range(10):
        start = time.perf_counter()
        with StdioClient(SERVE, env=config) as client:
            client.result(client.ask("initialize", {"processId": os.getpid(), "capabilities": {}}))
            taken.append(time.perf_counter() - start)
    assert median(taken) < 1.0


def test_the_model_is_ready_within_two_seconds_of_the_start(config: dict[str, str]) -> None:
    assert median(seconds_until_ready(config) for _ in range(5)) < 2.0


HEAVY = ("torch", "transformers", "numpy", "tokenizers", "huggingface_hub", "rich", "tree_sitter", "pygls")


def test_what_is_imported_before_initialize_is_light(config: dict[str, str]) -> None:
    command = (sys.executable, "-P", "-X", "importtime", "-m", "ghostdraft.lsp_server", "serve", "--stdio")
    with StdioClient(command, env=config) as client:
        client.result(client.ask("initialize", {"processId": os.getpid(), "capabilities": {}}))
        client.close_input()
        client.process.wait()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in client.log.decode().splitlines()}
    assert "ghostdraft" in imported
    assert imported.isdisjoint(HEAVY)
