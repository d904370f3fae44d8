"""What `ghostdraft train-draft` shows: a bar on standard error while it works, and in the end what came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from ghostdraft.drafting.train.refining import Stage


class TrainingBar:
    """One bar for the present stage, with the time that it still takes; lines where there is no terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(
            *columns, console=self._console, disable=not self._console.is_terminal, transient=True
        )
        self._task = self._progress.add_task("", visible=False)
        self._stage: Stage | None = None

    def __enter__(self) -> TrainingBar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def note(self, sentence: str) -> None:
        self._console.print(sentence)

    def watch(self, stage: Stage, done: int, total: int) -> None:
        if stage is not self._stage:
            self._stage = stage
            self._progress.reset(self._task, description=stage.value, visible=True)
            if self._progress.disable:
                self.note(f"{stage.value} ...")
        self._progress.update(self._task, completed=done, total=total)


def lines(outcome: dict[str, Any]) -> Iterator[str]:
    """What came out, for people."""
    yield (
        f"Acceptance in {outcome['heldout_files']} files held out: {_shares(outcome['acceptance_before'])} before, "
        f"{_shares(outcome['acceptance_after'])} after {outcome['steps']} steps."
    )
    yield f"Estimated speed over one token at a time, on this machine: {outcome['speedup']:.2f} times."
    if outcome["installed"]:
        yield f"Installed for {outcome['model']}: {outcome['path']}"
        yield f"It is used with the drafters {outcome['kind']} and hybrid, from the server's next start on."
    else:
        yield f"Not installed. {outcome['reason']}"


def _shares(acceptance: Sequence[float]) -> str:
    """By depth."""
    return " / ".join(f"{share:.1%}" for share in acceptance) or "none"
