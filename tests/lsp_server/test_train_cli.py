"""`ghostdraft train-draft`, from files to an installed drafter, on a small random model."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from typer.testing import CliRunner, Result

from ghostdraft.drafting.making import make
from ghostdraft.drafting.train import refining
from ghostdraft.drafting.train.refining import Stage
from ghostdraft.lsp_server import train_draft
from ghostdraft.lsp_server.commands import app
from ghostdraft.lsp_server.own_code import is_held_out
from ghostdraft.lsp_server.train_view import TrainingBar
from ghostdraft.models.acquire import import_file
from ghostdraft.models.costs import Costs
from ghostdraft.models.draft_file import DraftKind
from ghostdraft.models.drafts import trained_path
from ghostdraft.models.load import load
from ghostdraft.models.store import Store
from tests.models.published import gguf_file

torch.set_num_threads(1)  # such small models lose by more

COSTS = Costs(64, verify=((1, 1.0), (16, 1.001)), prefill=((1, 1.0), (64, 1.0)))
LINES = "def add(left, right):\n    return left + right\n\n\n"
STEPS = 20


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a small random model; what is read and learned there is little."""
    folder = tmp_path_factory.mktemp("train")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GHOSTDRAFT_HOME", str(folder / "home"))
        patch.setenv("GHOSTDRAFT_CONFIG", str(folder / "config.toml"))
        for name, value in (("EXAM", 2), ("LENGTH", 64), ("LEAST_STEPS", STEPS)):
            patch.setattr(refining, name, value)
        patch.setattr(refining, "step_seconds", lambda *_: 1e9)  # so there are no more steps
        import_file(Store(), gguf_file(folder / "small.gguf"), "small")
        load("small", device="cpu").costs.write(COSTS)
        yield folder / "home"


@pytest.fixture
def code(home: Path, tmp_path: Path) -> Path:
    """A workspace with files to learn from, some held out, and some that nobody may read."""
    folder = tmp_path / "code"
    folder.mkdir()
    for number in range(12):
        (folder / f"module{number}.py").write_text(f"# {number}\n" + LINES * 8, "utf-8")
    (folder / ".gitignore").write_text("ignored.py\n", "utf-8")
    for name in ("ignored.py", ".hidden.py", "secrets.json"):
        (folder / name).write_text('x = "secret"\n' * 100, "utf-8")
    for kind in DraftKind:
        trained_path("small", kind).unlink(missing_ok=True)
    assert home.is_dir()
    return folder


@pytest.fixture
def pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_draft, "_speedup", lambda *_: 1.5)


def run(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(app, ["train-draft", *arguments, "--model", "small", "--minutes", "5"])
    assert result.exit_code == status, result.output
    return result


def trained(code: Path, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(str(code), "--json", *arguments).stdout)
    return found


def failure(*arguments: str) -> str:
    result = run(*arguments, status=2)
    assert result.stdout == ""
    return result.stderr


@pytest.mark.usefixtures("pays")
@pytest.mark.parametrize("kind", list(DraftKind))
def test_a_new_drafter_that_pays_is_installed(code: Path, kind: DraftKind) -> None:
    found, path = trained(code, "--kind", kind), trained_path("small", kind)
    held_out = sum(is_held_out(f"module{number}.py") for number in range(12))
    assert (found["files"], found["heldout_files"]) == (12 - held_out, held_out)
    assert (found["installed"], found["reason"], found["path"]) == (True, None, str(path))
    assert (found["steps"], found["acceptance_before"]) == (STEPS, [])
    assert all(0 <= share <= 1 for share in found["acceptance_after"])
    assert make(kind, load("small", device="cpu")).name == kind
    assert not (path.parent / "training" / kind).exists()


@pytest.mark.usefixtures("pays")
def test_a_second_training_refines_and_keeps_what_is_better(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trained(code)
    before = trained_path("small", DraftKind.DRAFT_MODEL).read_bytes()
    monkeypatch.setattr(train_draft, "REFINING", 0.0)  # it learns nothing more
    second = run(str(code))
    assert f"{first['acceptance_after'][0]:.1%} before" in second.stdout
    assert "guesses no better" in second.stdout
    assert "Going on from" in second.stderr
    assert trained_path("small", DraftKind.DRAFT_MODEL).read_bytes() == before


def test_a_drafter_that_would_be_slower_is_not_installed(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_draft, "_speedup", lambda *_: 0.9)
    assert "slower here" in run(str(code), "--kind", "medusa").stdout
    assert not trained_path("small", DraftKind.MEDUSA).exists()


@pytest.mark.usefixtures("pays")
@pytest.mark.parametrize("stage", [Stage.TEACHING, Stage.LEARNING])
def test_an_interrupted_training_goes_on(code: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Stage, int]] = []

    def interrupted(_bar: TrainingBar, now: Stage, done: int, _total: int) -> None:
        seen.append((now, done))
        if (now, done) == (stage, 5):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TrainingBar, "watch", interrupted)
    assert "the same command goes on" in run(str(code), "--kind", "medusa", status=130).stderr
    assert seen[-1] == (stage, 5)
    del seen[:]
    monkeypatch.setattr(TrainingBar, "watch", lambda _bar, now, done, _total: seen.append((now, done)))
    assert trained(code, "--kind", "medusa")["steps"] == STEPS
    assert next(done for now, done in seen if now is stage) == 6
    assert Stage.EXAM not in {now for now, _ in seen}


def test_what_cannot_be_trained_is_told(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no folder" in failure(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "too little code" in failure(str(tmp_path / "empty"))

    def absent(_name: str) -> str:
        raise PackageNotFoundError

    for version, said in ((absent, "pip install 'ghostdraft[train]'"), (lambda _name: "2.8.0", "here is 2.8.0")):
        monkeypatch.setattr(train_draft, "version", version)
        assert said in failure(str(code))


def test_no_two_train_the_same(code: Path) -> None:
    lock = trained_path("small", DraftKind.EAGLE).parent / "training" / "eagle.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        assert "being trained already" in failure(str(code), "--kind", "eagle")
