"""The GPU's bench on the CPU, in tiny shapes: that it measures what it says, and that nothing of it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

from ghostdraft.benchmarks import gpu
from ghostdraft.benchmarks.gpu import Report, compare, decode, near_tie, tokens
from ghostdraft.benchmarks.gpu_drafts import Played, PlayedBy
from ghostdraft.benchmarks.gpu_models import SMALL, build
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Opening, Price
from ghostdraft.models.graphs import GraphModel, NoGraphs
from ghostdraft.models.types import FloatArray
from tests.fakes import FakeModel, hashed_logits

CASES = ("0.5B, bfloat16", "7B, bfloat16", "0.5B, int4", "7B, int4")


@pytest.fixture(scope="module")
def model() -> GraphModel:
    return build(SMALL.target, SMALL, "cpu", "bfloat16", NoGraphs())


def test_all_of_it_runs(tmp_path: Path) -> None:
    app = Typer()
    app.command()(gpu.main)
    result = CliRunner().invoke(app, ["--device", "cpu", "--small", "--output", str(tmp_path / "gpu.json")])
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert written["failed"] == {}
    assert set(written["found"]) == {"machine", *CASES, "pair"}
    for case in CASES:
        found = written["found"][case]
        assert [int(rows) for rows in found["lines"]] == list(range(1, 33))
        assert [int(rows) for rows in found["trees"]] == [16, 32, 64]
        assert found["prefill"]["tokens_per_second"] > 0
    for case in CASES[:2]:
        identity = written["found"][case]["identity"]
        assert identity["padded"]["line"] == {"tokens": 16, "same": 16, "near_ties": 0, "others": 0}
        assert all(counts["others"] == 0 for kinds in identity.values() for counts in kinds.values())
    assert "FAILED" not in result.stdout
    assert all(case in result.stdout for case in CASES)


def test_it_needs_no_more_than_pytorch_numpy_typer_and_rich() -> None:
    others = ("gguf", "safetensors", "transformers", "tokenizers", "tree_sitter", "huggingface_hub", "platformdirs")
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({others}))\n"  # so that importing one fails
        "import ghostdraft.benchmarks.gpu"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_measure_that_fails_is_told_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    report.attempt("a", "bad", lambda: 1 / 0)
    report.attempt("a", "good", lambda: 7)
    assert report.found == {"a": {"good": 7}}
    assert report.failed == {"a: bad": "ZeroDivisionError: division by zero"}
    gpu.show(report)
    assert "FAILED a: bad" in capsys.readouterr().out


def test_a_capture_that_fails_is_counted_and_the_pass_runs_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_graphs: NoGraphs, _run: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(NoGraphs, "capture", refused)
    ways = gpu.BothWays("cpu")
    model = build(SMALL.draft, SMALL, "cpu", "bfloat16", ways)
    assert gpu.graph_against_plain(ways, "cpu")["refused"] == ways.refused == 7
    assert len(decode(model, NoDrafter(), tokens(5), 3)) == 3


def test_what_is_begun_too_late_is_left_out() -> None:
    report = Report()
    report.started -= gpu.LIMIT + 1
    report.attempt("a", "late", lambda: 7)
    assert (report.found, report.failed) == ({}, {"a: late": "left out: no time"})


def test_a_difference_that_is_no_near_tie_is_counted_apart(model: GraphModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def confused(model: GraphModel, drafter: object, prompt: list[int], count: int) -> list[int]:
        text = decode(model, NoDrafter(), prompt, count)
        return text if isinstance(drafter, NoDrafter) else [*text[:5], (text[5] + 1) % 500, *text[6:]]

    monkeypatch.setattr(gpu, "decode", confused)
    monkeypatch.setattr(gpu, "near_tie", lambda *_: False)
    assert compare(model, SMALL, tree=False) == {
        "tokens": 16, "same": 5, "near_ties": 0, "others": 1,
    }  # fmt: skip


def test_a_near_tie_is_one_of_rounding() -> None:
    def of(gap: float) -> FakeModel:
        def logits(_tokens: object) -> FloatArray:
            found = np.zeros(500, np.float32)
            found[3], found[7] = 8.0, 8.0 - gap
            return found

        return FakeModel(logits, 500)

    assert near_tie(of(0.1), [1, 2])
    assert not near_tie(of(0.2), [1, 2])


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("right", [0.0, 0.7, 1.0])
def test_played_drafts_are_right_as_often_as_they_shall_be(tree: bool, right: float) -> None:
    target = FakeModel(hashed_logits(50), 50)
    text = decode(target, NoDrafter(), [1, 2, 3], 200)
    drafter = Played(text, 8, right, tree)
    target.passes.clear()
    assert decode(target, drafter, [1, 2, 3], 200) == text
    verified = len(target.passes) - 1  # the first reads the prompt
    assert verified == pytest.approx({0.0: 200, 0.7: 67, 1.0: 200 / (5 if tree else 9)}[right], rel=0.3)


def test_the_draft_model_reads_what_stands_and_no_more() -> None:
    target, draft = FakeModel(hashed_logits(50), 50), FakeModel(hashed_logits(50, seed=1), 50)
    prompt = [1, 2, 3]
    text = decode(target, NoDrafter(), prompt, 100)

    class Checked(PlayedBy):
        def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:
            whole = (*prompt, *text)
            assert (*draft.kept, *self._pending) == whole[: len(prompt) + self._at]
            return super().propose(max_tokens, opening, price)

    assert decode(target, Checked(draft, text, 4, 0.6), prompt, 100) == text
    assert len(draft.passes) > 100


def test_padding_of_the_vocabulary_is_never_written(model: GraphModel) -> None:
    assert SMALL.words <= SMALL.draft.vocab < SMALL.target.vocab
    assert max(decode(model, NoDrafter(), tokens(50), 100)) < SMALL.words
