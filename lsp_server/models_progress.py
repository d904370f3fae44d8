"""A progress bar for what the store does, on standard error: lines where that is no terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ghostdraft.lsp_server.models_view import size_text
from ghostdraft.models.progress import Offer, Stage, Watch


class ProgressBar:
    """One bar for the present stage; notes are printed above it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(
            *columns, console=self._console, disable=not self._console.is_terminal, transient=True
        )
        self._task = self._progress.add_task("", visible=False)
        self._stage: Stage | None = None
        self.watch = Watch(offered=self._offered, noted=self._console.print, advanced=self._advanced)

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def _offered(self, offer: Offer) -> None:
        self._console.print(f"{offer.name}: {size_text(offer.size)}, licence {offer.licence}, from {offer.origin}")
        if offer.sha256:
            self._console.print(f"sha256 {offer.sha256}")

    def _advanced(self, stage: Stage, done: int, total: int) -> None:
        if stage is not self._stage:
            self._stage = stage
            self._progress.reset(self._task, description=stage.value, visible=True)
            if self._progress.disable:
                self._console.print(f"{stage.value} ...")
        self._progress.update(self._task, completed=done, total=total or None)
