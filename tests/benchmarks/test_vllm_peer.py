"""vLLM as a peer, with a stand-in for its server."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from ghostdraft.benchmarks import vllm_peer
from ghostdraft.benchmarks.decode import Task
from ghostdraft.benchmarks.json_lines import PeerFailed
from tests.benchmarks.peer_stand_ins import program

SERVER = """
import time
def answered(path, wish):
    assert path == "/v1/completions" and wish["model"] == option("--model") and wish["ignore_eos"]
    time.sleep(0.001 * wish["max_tokens"])
    return {"usage": {"completion_tokens": min(wish["max_tokens"], 20)}}
serve()
"""


def test_it_writes_plain_and_with_drafts(tmp_path: Path) -> None:
    with ExitStack() as stack:
        plain, drafting = vllm_peer.servers(program(tmp_path, SERVER), tmp_path, 512, 2, stack)
        assert (plain.name, drafting.name) == ("vLLM, plain", "vLLM, ngram")
        for contender in (plain, drafting):
            contender.read(Task((1, 2), 20))
            assert contender.write(Task((1, 2), 20)) >= 0.02
        with pytest.raises(PeerFailed, match="20 tokens where 21"):
            plain.write(Task((1, 2), 21))
