"""Streams, logs and the end of the process, over a real process with a fake engine."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ghostdraft.lsp_server import transport
from ghostdraft.lsp_server.transport import BrokenFraming, frame, read_message
from tests.e2e.stdio_client import StdioClient, did_change, did_open, inline_completion

FAKE_SERVER = str(Path(__file__).with_name("fake_server.py"))
URI = "file:///project/main.py"
SOON = 2.0  # seconds, as promised


@contextmanager
def serving(engine: str) -> Iterator[StdioClient]:
    with StdioClient((sys.executable, FAKE_SERVER, engine), env={"GHOSTDRAFT_CONFIG": os.devnull}) as client:
        client.initialize()
        client.wait_until_ready()
        yield client


@pytest.mark.parametrize("body", [b"{}", b"", "Ж😀".encode(), b"x" * 100_000])
def test_a_framed_message_is_read_back(body: bytes) -> None:
    assert read_message(io.BytesIO(frame(body) + b"rest")) == body


def test_headers_are_read_in_any_case_and_order() -> None:
    stream = io.BytesIO(b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:2\r\n\r\n{}")
    assert read_message(stream) == b"{}"
    assert read_message(stream) is None


@pytest.mark.parametrize(
    "start",
    [
        b"Content-Length: many\r\n\r\n{}",
        b"GET / HTTP/1.1\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n{}",
        b"Content-Length: %s\r\n\r\n{}" % (b"1" * 5000),
    ],
)
def test_what_is_no_stream_of_messages_is_refused(start: bytes) -> None:
    with pytest.raises(BrokenFraming):
        read_message(io.BytesIO(start))


def test_a_stream_cut_inside_a_message_has_ended() -> None:
    assert read_message(io.BytesIO(b"Content-Length: 10\r\n\r\n{}")) is None


def test_edit_request_and_edit_in_one_write_answer_for_the_text_between() -> None:
    with serving("echo") as client:
        request = client.request("textDocument/inlineCompletion", inline_completion(URI, 0, 2))
        client.write(did_open(URI, "a\n"), did_change(URI, 0, 1, "b"), request, did_change(URI, 0, 0, "zzz", version=3))
        (item,) = client.result(request["id"])["items"]
        assert item["insertText"] == "ab"
        assert item["range"]["start"] == {"line": 0, "character": 2}


def test_what_a_library_prints_does_not_reach_the_protocol() -> None:
    with serving("printing") as client:
        client.write(did_open(URI, "a"))
        for _ in range(2):
            assert client.result(client.ask("textDocument/inlineCompletion", inline_completion(URI, 0, 1)))
        assert client.exit() == 0
    assert client.garbage == b""
    assert b"printed by a library" in client.log
    assert b"written by C" in client.log


def test_no_user_text_in_the_log_at_any_level() -> None:
    canary = "CANARY"
    with serving("failing") as client:
        client.write(did_open(f"file:///{canary}.py", f"x = '{canary}'\n"))
        client.write(did_change(f"file:///{canary}.py", 0, 0, canary))
        wanted = inline_completion(f"file:///{canary}.py", 0, 1)
        assert client.answer(client.ask("textDocument/inlineCompletion", wanted))["error"]["code"] == -32603
        for broken in ({**wanted, "position": canary}, {**wanted, "textDocument": {"uri": [canary]}}, canary):
            assert client.answer(client.ask("textDocument/inlineCompletion", broken))["error"]["code"] == -32602
        client.notify("textDocument/didChange", {"textDocument": {"uri": canary}, "contentChanges": [canary]})
        client.notify("textDocument/didChange", {"textDocument": {"uri": canary, "version": 1}, "contentChanges": []})
        client.notify("workspace/didChangeConfiguration", {"settings": {canary: canary}})
        client.ask("workspace/executeCommand", {"command": canary, "arguments": [canary]})
        client.ask(f"method/{'x' * 100}{canary}", {canary: canary})
        assert client.exit() == 0
    assert b"RuntimeError" in client.log
    assert canary.encode() not in client.log


@pytest.mark.parametrize("engine", ["echo", "deaf"])
def test_the_server_ends_soon_after_its_input(engine: str) -> None:
    with serving(engine) as client:
        client.write(did_open(URI, "a"))
        client.ask("textDocument/inlineCompletion", inline_completion(URI, 0, 1))
        time.sleep(0.2)
        start = time.monotonic()
        client.close_input()
        assert client.process.wait(10) == 1
        assert time.monotonic() - start < SOON


@pytest.mark.parametrize("engine", ["echo", "deaf"])
def test_the_server_ends_soon_after_the_client_s_process(engine: str) -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as editor,
        StdioClient((sys.executable, FAKE_SERVER, engine), env={"GHOSTDRAFT_CONFIG": os.devnull}) as client,
    ):
        client.initialize(processId=editor.pid)
        client.wait_until_ready()
        client.write(did_open(URI, "a"))
        client.ask("textDocument/inlineCompletion", inline_completion(URI, 0, 1))
        time.sleep(0.2)
        assert client.process.poll() is None
        editor.kill()
        start = time.monotonic()
        assert client.process.wait(10) == 1
        assert time.monotonic() - start < SOON


@pytest.mark.parametrize("watch", [transport._slept_until_its_end, transport._looked_until_its_end])
def test_a_process_is_watched_until_its_end_though_nobody_waits_for_it(watch: Callable[[int], bool]) -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as editor,
        ThreadPoolExecutor(1) as pool,
    ):
        if watch is transport._slept_until_its_end and sys.platform != "linux":
            assert not watch(editor.pid)
        else:
            watched = pool.submit(watch, editor.pid)
            time.sleep(0.1)
            assert not watched.done()
            editor.kill()
            assert watched.result(SOON)
            editor.wait()
            assert watch(editor.pid)


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"Content-Length: %s\r\n\r\n" % (b"9" * 5000)]
)
def test_a_stream_that_is_no_protocol_ends_the_server(start: bytes) -> None:
    with serving("echo") as client:
        assert client.process.stdin is not None
        client.process.stdin.write(start)
        client.process.stdin.flush()
        assert client.process.wait(10) == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no interrupt that one process could send another")
@pytest.mark.platform
def test_an_interrupt_from_the_keyboard_ends_it_without_a_word() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts behind its back ignores it
    with StdioClient((sys.executable, FAKE_SERVER, "echo"), env={"GHOSTDRAFT_CONFIG": os.devnull}) as client:
        client.initialize()
        client.wait_until_ready()
        client.process.send_signal(signal.SIGINT)
        assert client.process.wait(10) == 130
        assert b"Traceback" not in client.log


def test_exit_does_not_wait_for_a_download() -> None:
    with serving("echo") as client:
        client.ask("workspace/executeCommand", {"command": "ghostdraft.pull", "arguments": []})
        time.sleep(0.3)
        start = time.monotonic()
        client.exit()
        assert time.monotonic() - start < SOON


def test_shutdown_and_exit() -> None:
    with serving("deaf") as client:
        client.write(did_open(URI, "a"))
        running = client.ask("textDocument/inlineCompletion", inline_completion(URI, 0, 1))
        assert client.exit() == 0
        assert client.answer(running)["error"]["code"] == -32800
