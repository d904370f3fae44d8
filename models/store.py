"""The models on this disk: one folder each, there whole or not at all.

    <home>/models/NAME/       a finished checkpoint (see `checkpoint`)
    <home>/partial/NAME/      a download or import that is under way, or was interrupted: the next one goes on from it
    <home>/locks/NAME.lock    held while one is under way

<home> is $GHOSTDRAFT_HOME, or the user's data folder. Knows nothing of where models come from (`acquire`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from ghostdraft.models import registry
from ghostdraft.models.checkpoint import FORMAT, MANIFEST, Checkpoint, mend, open_checkpoint, read_manifest
from ghostdraft.models.types import ModelError, ModelNotFound, WeightsCorrupt

HOME_VARIABLE = "GHOSTDRAFT_HOME"

_PART = r"\w[\w.+-]*"
_NAME = re.compile(rf"{_PART}(/{_PART})?(:{_PART}(/{_PART})*)?")
LONGEST_NAME = 200  # characters


def default_home() -> Path:
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("ghostdraft", appauthor=False)


class Store:
    def __init__(self, home: Path | None = None) -> None:
        self.home = home or default_home()

    def folder(self, name: str) -> Path:
        """Where the model of this name lies, or would lie; "/" in a hub id becomes "--", ":" becomes "@".

        Raises ModelNotFound for what cannot be a name.
        """
        if not _NAME.fullmatch(name) or "--" in name or len(name) > LONGEST_NAME:
            raise ModelNotFound(
                f"No model can be called {name!r}: a name is made of letters, digits and single . _ + -, a hub id of "
                "two such names with / between them, and of a file behind a colon. See: ghostdraft models list"
            )
        return self.home / "models" / name.replace("/", "--").replace(":", "@")

    def partial(self, name: str) -> Path:
        return self.home / "partial" / self.folder(name).name

    def has(self, name: str) -> bool:
        return (self.folder(name) / MANIFEST).is_file()

    def find(self, name: str) -> Checkpoint:
        """Raises ModelNotFound where it is not here, WeightsCorrupt where it is damaged."""
        folder = self.folder(name)
        if not self.has(name):
            raise ModelNotFound(absent(name))
        manifest = read_manifest(folder)
        if manifest.get("format") != FORMAT:
            raise WeightsCorrupt(
                f"{name} was stored by another version of ghostdraft. {mend(name, manifest.get('origin'))}"
            )
        return open_checkpoint(folder)

    def list(self) -> list[Checkpoint]:
        """All that are whole, by name. A damaged one is told by `find`."""
        folders = sorted((self.home / "models").glob(f"*/{MANIFEST}"))
        return [checkpoint for path in folders if (checkpoint := _opened(path.parent))]

    def remove(self, name: str) -> None:
        """Removes it, and what an interrupted download of it left. Raises ModelNotFound, ModelError while in use."""
        folders = [folder for folder in (self.folder(name), self.partial(name)) if folder.exists()]
        if not folders:
            raise ModelNotFound(absent(name))
        with self.lock(name, lambda: None):
            for folder in folders:
                _remove_folder(folder)

    @contextmanager
    def lock(self, name: str, waiting: Callable[[], None]) -> Iterator[None]:
        """One process at a time works on a name; `waiting` is called once where another holds it. Raises
        ModelError where nothing can be written."""
        lock = FileLock(self.home / "locks" / f"{self.folder(name).name}.lock")
        self._acquire(lock, waiting)
        try:
            yield
        finally:
            lock.release()

    def _acquire(self, lock: FileLock, waiting: Callable[[], None]) -> None:
        try:
            Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire()
        except OSError as error:
            raise ModelError(
                f"Nothing can be written below {self.home}, where models are kept ({error.strerror}). "
                f"Set {HOME_VARIABLE} to a folder that can be written."
            ) from error


def _opened(folder: Path) -> Checkpoint | None:
    try:
        return open_checkpoint(folder)
    except WeightsCorrupt:
        return None


def _remove_folder(folder: Path) -> None:
    """Out of sight in one step, then deleted: an interruption leaves no half of a model behind."""
    doomed = folder.with_name(folder.name + ".removed")
    try:
        shutil.rmtree(doomed, ignore_errors=True)
        os.replace(folder, doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        raise ModelError(f"{folder} cannot be removed ({error.strerror}). Close the editors that use it.") from error


def plain_name(text: str) -> str:
    """A name that comes near to `text`."""
    return re.sub(r"--+", "-", re.sub(r"[^\w.+-]+|^[^\w]+", "_", text))[:LONGEST_NAME] or "_"


def absent(name: str) -> str:
    """The sentence for a name that is not in the store."""
    if name in registry.MODELS:
        return f"{name} is not on this disk yet. Fetch it: ghostdraft models pull {name}"
    if name.count("/") == 1 and not name.startswith("/"):
        return (
            f"{name} is not on this disk, nor in the table of known models. "
            f"Fetch it from the hub: ghostdraft models pull {name}"
        )
    close = registry.suggestions(name)
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    return f"No model is called {name}.{meant} See: ghostdraft models list"
