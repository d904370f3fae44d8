"""`ghostdraft doctor`: what it finds, and the command that mends it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ghostdraft.lsp_server import __version__, doctor, machine
from ghostdraft.lsp_server.commands import app
from ghostdraft.lsp_server.doctor import CpuEngine
from ghostdraft.lsp_server.machine import Machine, is_too_slow
from ghostdraft.models.acquire import import_file
from ghostdraft.models.cost_file import cost_file
from ghostdraft.models.costs import Costs
from ghostdraft.models.load import PRECISIONS
from ghostdraft.models.store import Store
from tests.models.published import gguf_file

FAST = Machine("Linux", "3.11", "some processor", 8, 32 << 30, 20e9, gpu=False, torch=False)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GHOSTDRAFT_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "look", lambda: FAST)
    monkeypatch.setattr(doctor, "_cpu_engine", lambda: CpuEngine(("avx2", "portable")))
    monkeypatch.setattr(doctor, "_device", lambda: "cpu")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def problems() -> list[str]:
    found: list[str] = json.loads(run("--json").stdout)["problems"]
    return found


def test_a_missing_model_and_its_mend() -> None:
    result = run()
    assert result.exit_code == 1
    assert "ghostdraft models pull starter" in result.stdout
    assert problems() == ["starter is not on this disk yet. Fetch it: ghostdraft models pull starter"]


def test_where_settings_and_models_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run().stdout
    assert str(tmp_path / "home" / "models") in text
    assert f"{tmp_path / 'config.toml'}\n" in text
    (tmp_path / "config.toml").unlink()
    assert f"{tmp_path / 'config.toml'}, which is not there\n" in run().stdout
    assert any(one.startswith(f"GHOSTDRAFT_CONFIG names {tmp_path / 'config.toml'}") for one in problems())
    monkeypatch.delenv("GHOSTDRAFT_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    assert not any("GHOSTDRAFT_CONFIG" in problem for problem in problems())


def test_each_setting_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('model = "tiny"\nmax_tokens = "many"\n')
    (tmp_path / ".ghostdraft.toml").write_text('model = "evil"\n[languages.python]\nbudget_ms = 100\n')
    report: dict[str, Any] = json.loads(run("--json").stdout)
    settings = report["settings"]
    assert settings["model"] == {"value": "tiny", "origin": str(tmp_path / "config.toml")}
    assert settings["languages.python.budget_ms"] == {"value": 100, "origin": str(tmp_path / ".ghostdraft.toml")}
    assert settings["drafter"] == {"value": "ngram", "origin": "default"}
    assert sum("max_tokens" in problem or "`model` is ignored" in problem for problem in report["problems"]) == 2
    assert report["version"] == __version__
    assert report["engine"]["variants"] == ["avx2", "portable"]
    text = run().stdout
    assert f'  model = "tiny"  ({tmp_path / "config.toml"})' in text
    assert "avx2, portable" in text


@pytest.mark.parametrize(
    ("changes", "variants"),
    [({"bandwidth": 1e9, "cores": 2}, ("avx2",)), ({"memory": 500_000_000}, ("avx2",)), ({}, ("portable",))],
)
def test_slow_machines_are_advised_the_smallest_model(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], variants: tuple[str, ...]
) -> None:
    monkeypatch.setattr(machine, "look", lambda: replace(FAST, **changes))
    monkeypatch.setattr(doctor, "_cpu_engine", lambda: CpuEngine(variants))
    assert any("ghostdraft models pull tiny" in problem for problem in problems())


def test_an_idle_gpu_is_told_with_the_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "look", lambda: replace(FAST, gpu=True))
    assert any('pip install "ghostdraft[gpu]"' in problem for problem in problems())
    monkeypatch.setattr(machine, "look", lambda: replace(FAST, gpu=True, torch=True))
    assert not any("pip install" in problem for problem in problems())


def test_an_engine_that_cannot_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "No C compiler works here. Install one, for example with: pip install ziglang."
    monkeypatch.setattr(doctor, "_cpu_engine", lambda: CpuEngine((), sentence))
    assert sentence in problems()
    assert "no engine" in run().stdout


def test_larger_models_need_more_bandwidth() -> None:
    machine_ = replace(FAST, bandwidth=5e9, cores=2)
    assert not is_too_slow(machine_, 0.5e9, portable=False)
    assert is_too_slow(machine_, 1.5e9, portable=False)


def test_what_passes_cost_and_how_to_measure_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not measured yet" in run().stdout
    assert json.loads(run("--json").stdout)["costs"] is None
    costs = Costs(512, ((1, 0.010), (9, 0.018)), ((64, 0.1),), 2e-5)
    monkeypatch.setattr(doctor, "_costs", lambda _model: costs)
    text = run().stdout
    assert "behind 512 tokens 1: 10.0, 2: 11.0, 4: 13.0, 8: 17.0, 16: 25.0" in text
    assert "640 tokens/s" in text
    assert "ghostdraft doctor --measure" in text
    assert json.loads(run("--json").stdout)["costs"]["verify"] == [[1, 0.010], [9, 0.018]]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_passes_cost_on_a_gpu_is_found_in_the_precision_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setattr(doctor, "_device", lambda: "cuda")
    monkeypatch.setattr("ghostdraft.models.cost_file.gpu_name", lambda _device: "a GPU")
    checkpoint = import_file(Store(), gguf_file(tmp_path / "small.gguf"))
    (tmp_path / "config.toml").write_text('model = "small"\n')
    cost_file(checkpoint, "cuda", precision=precision).write(Costs(512, ((1, 0.010),), ((64, 0.1),), 2e-5))
    assert json.loads(run("--json").stdout)["costs"]["verify"] == [[1, 0.010]]


def test_measuring_a_model_that_is_not_here_says_how_to_get_it() -> None:
    result = run("--measure")
    assert result.exit_code == 2
    assert "ghostdraft models pull starter" in result.stderr


@pytest.mark.model("tiny")
def test_measuring_takes_ten_seconds_and_is_then_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "config.toml").write_text('model = "tiny"\n')
    monkeypatch.setenv("GHOSTDRAFT_CONFIG", str(tmp_path / "config.toml"))
    started = time.monotonic()
    text = run("--measure").stdout
    assert time.monotonic() - started < 20  # of which loading takes some
    assert "reads" in text
    assert "not measured" not in text
