"""The benches of the server run, and measure what they say."""

from __future__ import annotations

import asyncio
import sys

import pytest

from ghostdraft.benchmarks import cancel, keystroke, startup
from ghostdraft.benchmarks.lsp_client import Client, ServerEnded
from ghostdraft.benchmarks.report import Bar
from ghostdraft.models.load import load


@pytest.mark.model("tiny")
def test_a_start_is_timed_to_the_answer_and_to_the_model() -> None:
    start = startup.start("tiny")
    assert 0.0 < start.initialized < start.ready


def test_a_server_that_ended_is_told_apart_from_an_output_that_nobody_reads() -> None:
    with Client("tiny", (sys.executable, "-c", "")) as client:
        client.process.wait()
        with pytest.raises(ServerEnded):
            client.notify("initialized", {})


@pytest.mark.model("tiny")
def test_cancelled_requests_are_timed_in_the_prompt_and_in_decoding() -> None:
    with Bar("") as bar:
        text = "import json\n\n\ndef save(path, everything):\n    "
        found = asyncio.run(cancel.trials(load("tiny", "cpu"), 2, text, bar))
    assert len(found) == 4
    assert found[0].kind == "prefill"
    assert found[0].stopped is not None
    assert found[0].stopped > 0.0
    assert [one.delay for one in found] == [0.0, cancel.LATEST] * 2


@pytest.mark.model("tiny")
def test_a_key_costs_no_more_in_a_long_file() -> None:
    loaded = load("tiny", "cpu", threads=1)
    short, long = (keystroke.cost(lines, asyncio.run(keystroke.typed(loaded, lines))) for lines in keystroke.LINES)
    assert long.characters > 1_000_000 > 100_000 > short.characters
    assert 0.0 < long.p50 < 2 * short.p50


def test_the_spread_of_times_leaves_out_what_was_done_before() -> None:
    trials = [cancel.Trial("verify", 0.0, ms / 1e3) for ms in (1.0, 2.0, 3.0)] + [cancel.Trial("verify", 0.8, None)]
    spread = cancel._spread(trials)
    assert (spread["count"], spread["p50"], spread["most"]) == (3, 2.0, 3.0)
