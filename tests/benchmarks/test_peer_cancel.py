"""How soon a server falls silent, with a stand-in that goes on for a while after its client has hung up."""

from __future__ import annotations

from pathlib import Path

from ghostdraft.benchmarks import peer_cancel
from ghostdraft.benchmarks.llama_server import LlamaServer, Serving, native
from tests.benchmarks.peer_stand_ins import program

BUSY = """
import time
def answered(path, wish):
    assert wish["stream"] and wish["n_predict"] == 500
    end = time.perf_counter() + 0.1 * wish["prompt"][0]
    while time.perf_counter() < end:
        pass
    return {}
serve()
"""


def test_the_time_lasts_until_no_processor_time_is_used(tmp_path: Path) -> None:
    serving = Serving(tmp_path / "model.gguf", flash=False, context=512, threads=2, states=tmp_path)
    with LlamaServer(native(program(tmp_path, BUSY), "plain"), serving) as server:
        assert 0.3 < peer_cancel.silence(server, [5], 0.05) < 1.5
        assert peer_cancel.silence(server, [0], 0.3) < 0.2
