"""Over many completions in documents that come and go the server's memory stays as it is."""

from __future__ import annotations

import sys
from collections import deque

import pytest

from ghostdraft.benchmarks.process import held
from ghostdraft.benchmarks.typist import TYPED, Typist, document, serving

CONTEXT = 512
FIRST, MORE = 16, 12  # documents: after the first ones all that is remembered is full
IN_EACH = 6  # completions
MOST = 8_000_000  # bytes: a copy of the cache for each document more would be 12 times as much


def work(typist: Typist, numbers: range, opened: deque[str]) -> int | None:
    """Types into documents that were never seen before; the memory that is held then and belongs to no file."""
    for number in numbers:
        opened.append(typist.open(document(number, CONTEXT)))
        if len(opened) > 3:
            typist.close(opened.popleft())
        for letter in TYPED[:IN_EACH]:
            typist.key(opened[-1], letter)
    return held(typist.pid).anonymous


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.model("tiny")
@pytest.mark.platform
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell it")
def test_memory_stays_as_it_is() -> None:
    with serving("tiny", context=CONTEXT, max_tokens=4) as (client, typist):
        client.wait_until_ready()
        opened = deque[str]()
        full = work(typist, range(FIRST), opened)
        later = work(typist, range(FIRST, FIRST + MORE), opened)
        assert full is not None
        assert later is not None
        assert abs(later - full) < MOST
