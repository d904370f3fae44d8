"""Reading ahead, in a real process with the `tiny` model: what the first request finds, and that it ends."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ghostdraft.lsp_server.power import on_battery
from tests.e2e.stdio_client import StdioClient, did_change, did_open, inline_completion

pytestmark = [
    pytest.mark.model("tiny"),
    pytest.mark.skipif(on_battery(), reason="on battery nothing is read ahead"),
]

URI = "file:///project/shapes.py"
SHAPE = """class Shape{0}:
    def __init__(self, width, height):
        self.width = width
        self.height = height

    def area(self):
        return self.width * self.height + {0}


"""
CODE = "".join(map(SHAPE.format, range(12)))
LINES = CODE.count("\n")


class Reader:
    """A server that notes what its engine found in the cache, and a client."""

    def __init__(self, client: StdioClient, notes: Path) -> None:
        self.client = client
        self._notes = notes
        self._process = psutil.Process(client.process.pid)

    def ask(self, line: int, character: int) -> dict[str, Any]:
        """What the engine noted of a request there."""
        wanted = inline_completion(URI, line, character)
        self.client.result(self.client.ask("textDocument/inlineCompletion", wanted))
        notes: list[dict[str, Any]] = list(map(json.loads, self._notes.read_text(encoding="utf-8").splitlines()))
        return [note for note in notes if not note["ahead"]][-1]

    def work(self, seconds: float) -> float:
        """Seconds of processor time that it takes meanwhile."""
        before = sum(self._process.cpu_times()[:2])
        time.sleep(seconds)
        return sum(self._process.cpu_times()[:2]) - before

    def wait_until_idle(self) -> None:
        end = time.monotonic() + 60
        while self.work(0.5) > 0:
            assert time.monotonic() < end, "it never rests"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    config, notes = tmp_path / "config.toml", tmp_path / "notes"
    config.write_text('model = "tiny"\n')
    command = (sys.executable, "-P", "-m", "ghostdraft.benchmarks.replay_server", str(notes))
    with StdioClient(command, env={"GHOSTDRAFT_CONFIG": str(config)}) as client:
        client.initialize()
        client.wait_until_ready()
        yield Reader(client, notes)


def test_after_a_rest_the_first_request_finds_its_prompt_read(reader: Reader) -> None:
    reader.client.write(did_open(URI, CODE))
    reader.wait_until_idle()
    note = reader.ask(LINES, 0)
    assert note["prompt"] > 500
    assert note["reused"] == note["prompt"] - 1
    reader.client.write(did_change(URI, LINES, 0, "def total(shapes):\n    return sum("))
    reader.wait_until_idle()
    note = reader.ask(LINES + 1, len("    return sum("))
    assert note["reused"] == note["prompt"] - 1


def test_without_a_rest_it_reads_all(reader: Reader) -> None:
    reader.client.write(did_open(URI, CODE))
    assert reader.ask(LINES, 0)["reused"] == 0


def test_once_the_prompt_is_read_the_process_does_nothing(reader: Reader) -> None:
    reader.client.write(did_open(URI, CODE))
    reader.wait_until_idle()
    for column, letter in enumerate("shapes = [Shape1(2, 3)"):
        reader.client.write(did_change(URI, LINES, column, letter, version=2 + column))
        time.sleep(0.02)
    reader.wait_until_idle()
    assert reader.work(2) == 0
