"""A server of llama.cpp, with a stand-in for the program: what it is asked, and when its answer is not believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghostdraft.benchmarks import llama_server
from ghostdraft.benchmarks.contenders import Served
from ghostdraft.benchmarks.decode import Task
from ghostdraft.benchmarks.json_lines import PeerFailed
from ghostdraft.benchmarks.llama_server import MODES, LlamaServer, Serving
from tests.benchmarks.peer_stand_ins import LLAMA, program

PROMPT = tuple(range(100))


def serving(folder: Path) -> Serving:
    return Serving(folder / "model.gguf", flash=True, context=512, threads=2, states=folder)


def served(folder: Path, mode: str = "plain", text: str = LLAMA) -> Served:
    return Served("llama.cpp", "GGUF", llama_server.native(program(folder, text), mode), serving(folder))


def test_the_time_is_that_of_the_tokens_and_of_the_last_one_of_the_prompt(tmp_path: Path) -> None:
    contender, task = served(tmp_path), Task(PROMPT, 7)
    contender.read(task)
    assert contender.write(task) == pytest.approx(0.07)


def test_a_mode_takes_over_what_another_one_read(tmp_path: Path) -> None:
    task = Task(PROMPT, 7)
    served(tmp_path).read(task)
    kept = set(tmp_path.iterdir())
    drafting = served(tmp_path, "ngram-mod")
    drafting.read(task)
    assert set(tmp_path.iterdir()) == kept
    assert drafting.write(task) == pytest.approx(0.035)


def test_a_cold_prompt_does_not_count_as_decoding(tmp_path: Path) -> None:
    with (
        LlamaServer(served(tmp_path).command, serving(tmp_path)) as server,
        pytest.raises(PeerFailed, match="read 100"),
    ):
        server.write(PROMPT, 7)


def test_an_early_stop_is_told(tmp_path: Path) -> None:
    contender = served(tmp_path, text=LLAMA.replace('wish["n_predict"] if', "3 if"))
    contender.read(Task(PROMPT, 7))
    with pytest.raises(PeerFailed, match="wrote 3 where 7"):
        contender.write(Task(PROMPT, 7))


def test_a_refusal_and_a_program_that_ends_are_told(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="status 400"):
        served(tmp_path, text="\ndef answered(path, wish): return None\nserve()").read(Task(PROMPT, 7))
    with pytest.raises(PeerFailed, match="by hand"):
        served(tmp_path, text="\nsys.exit(1)").read(Task(PROMPT, 7))
    with pytest.raises(PeerFailed, match="No such file"):
        Served("", "", llama_server.native(tmp_path / "gone", "plain"), serving(tmp_path)).read(Task(PROMPT, 7))


def test_every_mode_but_the_plain_one_drafts() -> None:
    assert {mode for mode, options in MODES.items() if "--spec-type" not in options} == {"plain"}
