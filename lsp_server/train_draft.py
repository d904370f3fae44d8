"""`ghostdraft train-draft`: trains a drafter for the user's own model on the user's own code.

What comes out is installed where it pays. Whatever it is, the text that the model writes stays the same.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import typer
from filelock import FileLock, Timeout

from ghostdraft.lsp_server.setting_sources import WORKSPACE_FILE
from ghostdraft.lsp_server.settings import user_settings
from ghostdraft.lsp_server.telling import BadInput, waiting
from ghostdraft.lsp_server.train_view import TrainingBar, lines
from ghostdraft.models.draft_file import DraftKind, read_draft
from ghostdraft.models.drafts import find_draft, trained_path
from ghostdraft.models.store import Store

if TYPE_CHECKING:
    from ghostdraft.completion.workspace import PolicyOf
    from ghostdraft.drafting.train.recipes import Marks
    from ghostdraft.drafting.train.refining import Job, Outcome
    from ghostdraft.lsp_server.own_code import OwnCode
    from ghostdraft.models.load import Loaded

LEAST_TORCH = (2, 9)
NEEDS_TORCH = "Training needs PyTorch 2.9 or later: pip install 'ghostdraft[train]'"
STATE = "training"
REFINING = 0.3  # of the learning rates that a new network has


@dataclass(frozen=True, slots=True)
class Wish:
    """The command line."""

    folder: Path
    model: str
    kind: DraftKind
    minutes: float
    seed: int
    as_json: bool


def train(wish: Wish) -> None:
    """Prints what came out. Raises BadInput, ModelError, KeyboardInterrupt."""
    _check_torch()
    started, loaded = time.monotonic(), _loaded(wish.model)
    code = _own_code(wish.folder, loaded)
    job = _job(wish, loaded, code)
    with _alone(job.folder), _halting() as halted, TrainingBar() as bar:
        bar.note(_beginning(job, code))
        outcome = _trained(job, loaded, bar, halted)
        found = _found(wish, code, outcome) | _installed(job, outcome, loaded)
    found["seconds"] = round(time.monotonic() - started, 1)
    typer.echo(json.dumps(found, indent=2) if wish.as_json else "\n".join(lines(found)))


def _check_torch() -> None:
    try:
        present = tuple(int(number) for number in version("torch").split(".")[:2])
    except PackageNotFoundError as error:
        raise BadInput(NEEDS_TORCH) from error
    if present < LEAST_TORCH:
        raise BadInput(f"{NEEDS_TORCH} (here is {version('torch')}).")


def _loaded(model: str) -> Loaded:
    """With known costs, on the engine that runs drafters."""
    from ghostdraft.drafting.measuring import measure_once
    from ghostdraft.models.load import load

    with waiting(f"loading {model}"):
        loaded = load(model, device="cpu", context=1024)
        measure_once(loaded.model, loaded.costs)
    return loaded


def _own_code(folder: Path, loaded: Loaded) -> OwnCode:
    from ghostdraft.lsp_server.own_code import collect

    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder. Give the one that your code is in.")
    with waiting(f"looking through {folder}"):
        return collect(folder, _policy_of(folder.resolve()), loaded.tokenizer)


def _policy_of(folder: Path) -> PolicyOf:
    settings, problems = user_settings()
    workspace = next((one for one in (folder, *folder.parents) if (one / WORKSPACE_FILE).exists()), None)
    if workspace is not None:
        problems += settings.add_folder(workspace)
    for problem in problems:
        typer.echo(f"ghostdraft: {problem}", err=True)
    return lambda place: settings.options(place).policy


def _job(wish: Wish, loaded: Loaded, code: OwnCode) -> Job:
    from ghostdraft.drafting.train.refining import Job, Material

    material = Material.of(code.train.documents, code.heldout.documents, loaded.spec, loaded.tokenizer)
    folder, base = trained_path(wish.model, wish.kind).parent / STATE / wish.kind, _base(wish)
    return Job(
        folder=folder,
        texts=folder / "lessons",
        checkpoint=Store().find(wish.model),
        kind=wish.kind,
        material=material,
        scope=str(wish.folder.resolve()),
        base=base,
        seconds=60 * wish.minutes,
        seed=wish.seed,
        rate=REFINING if base else 1.0,
    )


def _base(wish: Wish) -> Path | None:
    """The draft that is refined: an EAGLE may begin as a draft model."""
    own = find_draft(wish.model, wish.kind)
    return own or (find_draft(wish.model, DraftKind.DRAFT_MODEL) if wish.kind is DraftKind.EAGLE else None)


def _beginning(job: Job, code: OwnCode) -> str:
    what = f"A new {job.kind}" if job.base is None else f"Going on from {job.base}"
    return (
        f"{what}, on {code.train.files:,} files ({code.train.tokens:,} tokens); {code.heldout.files:,} are held out. "
        f"Some {job.seconds / 60:.0f} minutes; Ctrl-C keeps what is learned."
    )


def _trained(job: Job, loaded: Loaded, bar: TrainingBar, halted: Callable[[], bool]) -> Outcome:
    from ghostdraft.drafting.train.refining import TooShort, Training
    from ghostdraft.models.costs import GUESS
    from ghostdraft.models.disk import disk_errors

    try:
        with disk_errors(job.folder):
            return Training(job, loaded.model, loaded.costs.read() or GUESS, bar.watch, halted).run()
    except TooShort as error:
        raise BadInput(f"{job.scope} has too little code to train on ({error}). Give a larger folder.") from error


def _found(wish: Wish, code: OwnCode, outcome: Outcome) -> dict[str, Any]:
    return {
        "model": wish.model,
        "kind": wish.kind.value,
        "files": code.train.files,
        "heldout_files": code.heldout.files,
        "tokens": code.train.tokens,
        "sequences": outcome.lessons,
        "steps": outcome.steps,
        "loss": round(outcome.after.loss, 4),
        "acceptance_before": _rounded(outcome.before),
        "acceptance_after": _rounded(outcome.after),
    }


def _rounded(marks: Marks | None) -> list[float]:
    return [round(share, 4) for share in marks.acceptance] if marks else []


def _installed(job: Job, outcome: Outcome, loaded: Loaded) -> dict[str, Any]:
    """Puts it where drafters are looked for, if it pays. What the training kept is not needed any more."""
    faster, path = _speedup(job, outcome, loaded), trained_path(job.checkpoint.name, job.kind)
    reason = _against(outcome, faster)
    if reason is None:
        os.replace(outcome.draft, path)
    shutil.rmtree(job.folder)
    return {"speedup": round(faster, 3), "installed": reason is None, "reason": reason,
            "path": str(path) if reason is None else None}  # fmt: skip


def _against(outcome: Outcome, faster: float) -> str | None:
    """Why it is not installed."""
    if outcome.before and sum(outcome.after.acceptance) <= sum(outcome.before.acceptance):
        return "It guesses no better than the drafter that is installed, which stays. Try more --minutes."
    if faster <= 1:
        return "Drafting with it would be slower here than one token at a time. Try more --minutes, or another --kind."
    return None


def _speedup(job: Job, outcome: Outcome, loaded: Loaded) -> float:
    from ghostdraft.drafting.train.worth import speedup
    from ghostdraft.models.costs import GUESS

    heads = job.kind is DraftKind.MEDUSA  # which borrow the target's own head
    borrowed = len(read_draft(outcome.draft).vocabulary) * loaded.model.shape.hidden if heads else 0
    share = (outcome.draft.stat().st_size + borrowed) / job.checkpoint.cpu_weights.stat().st_size
    return speedup(outcome.after.acceptance, share, loaded.costs.read() or GUESS, one_pass=heads)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One training of a kind at a time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{folder}.lock", timeout=0):
            yield
    except Timeout as error:
        raise BadInput("This drafter is being trained already. Wait for that to end, or end it.") from error


@contextmanager
def _halting() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is heeded between two steps; a second one at once."""
    halted = Event()

    def heed(*_: object) -> None:
        if halted.is_set():
            raise KeyboardInterrupt
        halted.set()

    before = signal.signal(signal.SIGINT, heed)
    try:
        yield halted.is_set
    finally:
        signal.signal(signal.SIGINT, before)
