"""The bench of memory weighs a real server, and tells a leak from a steady state."""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from collections.abc import Callable

import pytest

from ghostdraft.benchmarks import memory
from ghostdraft.benchmarks.memory import CONTEXT, Growth
from ghostdraft.benchmarks.process import Held, cpu_seconds, held, most_resident, ticked_seconds
from ghostdraft.benchmarks.report import Bar

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell it")
MB = 1_000_000


@ON_LINUX
def test_anonymous_memory_is_told_from_all_that_is_resident() -> None:
    before = held(os.getpid())
    block = mmap.mmap(-1, 32 * MB, flags=mmap.MAP_PRIVATE)  # what an allocator gives may have been there before
    block.write(b"x" * len(block))
    after = held(os.getpid())
    assert before.anonymous is not None
    assert after.anonymous is not None
    assert after.shared_out is not None
    assert after.anonymous - before.anonymous == pytest.approx(len(block), abs=2 * MB)
    assert after.anonymous < after.shared_out <= after.resident
    del block
    assert most_resident(os.getpid()) >= after.resident - 2 * MB


def spin() -> None:
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize("seconds_of", [cpu_seconds, ticked_seconds])
def test_processor_time_is_that_of_the_process(seconds_of: Callable[[int], float]) -> None:
    before = seconds_of(os.getpid())
    spin()
    assert 0.05 < seconds_of(os.getpid()) - before < 10


def test_ticks_have_the_time_of_threads_that_ended() -> None:
    before, thread = ticked_seconds(os.getpid()), threading.Thread(target=spin)
    thread.start()
    thread.join()
    assert 0.05 < ticked_seconds(os.getpid()) - before < 10


def growth(anonymous: Callable[[int], float | None]) -> list[Growth]:
    weights = ((done, anonymous(done)) for done in range(100, 1000, 100))
    return [Growth(done, Held(0, 0, None if weight is None else round(weight))) for done, weight in weights]


def test_the_slope_is_the_memory_that_a_thousand_completions_cost() -> None:
    assert memory.slope(growth(lambda done: 5 * MB + 300 * done)) == pytest.approx(300_000)
    assert memory.slope(growth(lambda done: 5 * MB + done % 200)) == pytest.approx(0, abs=200)
    assert memory.slope(growth(lambda _: None)) is None


@pytest.mark.model("tiny")
def test_a_server_is_weighed_while_documents_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LONG", 4 * CONTEXT)
    monkeypatch.setattr(memory, "WATCHED", 0.1)
    monkeypatch.setattr(memory, "BURST", 3)
    monkeypatch.setattr(memory, "IN_EACH", 3)
    with Bar("") as bar:
        found = memory.weigh("tiny", 9, bar)
    started, loaded, read, last = (of["resident"] for of in found["held"].values())
    assert 10 * MB < started < loaded < read
    assert read - loaded > 80 * MB  # of weights that are mapped
    assert found["most_resident"] >= last
    assert len(found["cpu_seconds_at_rest"]) == 3
