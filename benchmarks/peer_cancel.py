"""How soon a server of llama.cpp falls silent when its client hangs up, while it reads a prompt and while it decodes.

Silent is a process whose processor time stands still. Its clock ticks every 10 ms, which is how sure a time is.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from ghostdraft.benchmarks.contenders import Served
from ghostdraft.benchmarks.llama_server import LlamaServer
from ghostdraft.benchmarks.process import ticked_seconds

COUNT = 11
LATEST = 0.4  # seconds from the request to the hanging up
LOOK = 0.002  # seconds
SILENT = 0.5  # seconds without processor time
TOKENS = 500  # more than it writes in that time


def measure(served: Served, prompt: Sequence[int]) -> dict[str, Any]:
    """Milliseconds, by what it was at; the prompt has more tokens than it reads in LATEST. Raises PeerFailed."""
    with LlamaServer(served.command, served.serving) as server:
        reading = [silence(server, _new(prompt, i), _delay(i)) for i in range(COUNT)]
        decoding = [silence(server, prompt[:1], _delay(i)) for i in range(COUNT)]
    return {"count": COUNT, "reading": _spread(reading), "decoding": _spread(decoding)}


def silence(server: LlamaServer, prompt: Sequence[int], delay: float) -> float:
    """Seconds from the hanging up to the last processor time seen; the client hangs up after `delay` seconds."""
    wish = {"prompt": list(prompt), "n_predict": TOKENS, "temperature": 0, "ignore_eos": True, "stream": True}
    with closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("POST", "/completion", json.dumps(wish), {"Content-Type": "application/json"})
        time.sleep(delay)
    return _until_silent(server.process.pid)


def _until_silent(pid: int) -> float:
    start = last = time.perf_counter()
    used = ticked_seconds(pid)
    while (now := time.perf_counter()) - last < SILENT:
        if (seconds := ticked_seconds(pid)) != used:
            used, last = seconds, now
        time.sleep(LOOK)
    return last - start


def _new(prompt: Sequence[int], number: int) -> Sequence[int]:
    """One that begins like no other, so that nothing of it is in the cache."""
    return prompt[number:]


def _delay(number: int) -> float:
    return LATEST * (number + 1) / COUNT


def _spread(times: Sequence[float]) -> dict[str, float]:
    return {"p50": round(1e3 * statistics.median(times), 1), "most": round(1e3 * max(times), 1)}
