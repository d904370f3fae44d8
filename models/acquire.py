"""Brings models into the store: from the hub, from packages, from this machine's own files.

Nothing stands in the store before it is whole: everything is made in a partial folder that is renamed at the end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ghostdraft.models import local_files, registry
from ghostdraft.models.checkpoint import Checkpoint, SourceFile, mend_told
from ghostdraft.models.disk import disk_errors
from ghostdraft.models.install import Delivery, install
from ghostdraft.models.progress import Stage, Watch, from_byte
from ghostdraft.models.registry import Hub, KnownModel
from ghostdraft.models.sources import open_source
from ghostdraft.models.store import Store, absent, plain_name
from ghostdraft.models.types import DownloadFailed, ModelError, ModelNotFound, OutOfSpace, WeightsCorrupt

SILENT = Watch()
_ROOM_PER_BYTE = 2.2  # the published file, its converted twin, and what is unpacked on the way
_ROOM = 64 << 20


def pull(store: Store, name: str, watch: Watch = SILENT) -> Checkpoint:
    """A name of the registry's table, or a hub id "owner/model" (":file.gguf" behind it picks one of its files).

    Sources are tried in order; what stands in the store already is returned as it is. Raises ModelNotFound,
    DownloadFailed, WeightsCorrupt, OutOfSpace.
    """
    with disk_errors(store.home), store.lock(name, lambda: watch.advanced(Stage.WAITING, 0, 0)):
        if store.has(name):
            return store.find(name)
        with _resumable(store.partial(name)) as folder:
            delivery = _fetched(store, name, folder, watch)
            _clear_rest(folder, delivery)
            with mend_told(_refetch(name)):
                install(folder, delivery, watch)
            return publish(store, name)


def _fetched(store: Store, name: str, folder: Path, watch: Watch) -> Delivery:
    """From the first source that gives it."""
    known, complaints = registry.MODELS.get(name), []
    for place in known.sources if known else (_hub_id(name),):
        try:
            source = open_source(place, name, known)
            check_room(store, name, source.offer.size)
            watch.offered(source.offer)
            files = source.fetch(folder, watch)
            return Delivery(name, source.offer.origin, files, source.offer.licence, known)
        except (DownloadFailed, ModelNotFound, WeightsCorrupt) as error:
            watch.noted(str(error))
            complaints.append(error)
    raise _all_failed(name, complaints)


def _refetch(name: str) -> str:
    """The mend where published files cannot be used."""
    return (
        f"Try once more: ghostdraft models remove {name} && ghostdraft models pull {name}; "
        "where that does not help, what its publisher offers is damaged."
    )


def _clear_rest(folder: Path, delivery: Delivery) -> None:
    """What sources that were given up left behind."""
    wanted = {*(file.name for file in delivery.files), *local_files.COMPANIONS}
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()


def _all_failed(name: str, complaints: Sequence[ModelError]) -> ModelError:
    """One error of the kind of the last one, with what every source said."""
    said, last = " ".join(map(str, complaints)), complaints[-1]
    mend = "" if isinstance(last, ModelNotFound) else f" Have its file? ghostdraft models import FILE --name {name}"
    return type(last)(f"{name} could not be fetched. {said}{mend}")


def _hub_id(name: str) -> Hub:
    repo, _, file = name.partition(":")
    if repo.count("/") != 1:
        raise ModelNotFound(absent(name))
    return Hub(repo, file or None)


def import_file(store: Store, path: Path, name: str | None = None, watch: Watch = SILENT) -> Checkpoint:
    """Copies a GGUF file, or a folder with safetensors, into the store; its name there is the file's, unless given.

    Raises ModelNotFound, WeightsCorrupt, OutOfSpace, ModelError (the name is taken).
    """
    with disk_errors(path):
        files = local_files.find_files(path)
    name = name or plain_name(path.resolve().name.removesuffix(".gguf"))
    with disk_errors(store.home), store.lock(name, lambda: watch.advanced(Stage.WAITING, 0, 0)):
        _check_free_name(store, name)
        check_room(store, name, sum(file.stat().st_size for file in files))
        with _fresh(store.partial(name)) as folder:
            weights = _copied(files, folder, watch)
            delivery = Delivery(name, str(path.resolve()), weights, known=_known(name, weights))
            with mend_told("Download or export it again, then import that."), _told_of_originals(folder, files):
                install(folder, delivery, watch)
            return publish(store, name)


@contextmanager
def _told_of_originals(folder: Path, files: Sequence[Path]) -> Iterator[None]:
    """What is wrong with the copies in `folder`, which is gone then, is said of the files that the user gave."""
    try:
        yield
    except WeightsCorrupt as error:
        said = str(error)
        for file in files:
            said = said.replace(str(folder / file.name), str(file))
        raise WeightsCorrupt(said.replace(str(folder), str(files[0].parent))) from error


def _copied(files: tuple[Path, ...], folder: Path, watch: Watch) -> tuple[SourceFile, ...]:
    total, before, copied = sum(file.stat().st_size for file in files), 0, []
    for file in files:
        one = local_files.copy(file, folder / file.name, from_byte(watch, Stage.COPYING, before, total))
        before += one.size
        copied.append(one)
    return tuple(one for one in copied if one.name not in local_files.COMPANIONS)


def _known(name: str, weights: Sequence[SourceFile]) -> KnownModel | None:
    """A known model's name is for that model. Raises ModelError where the file is another."""
    known = registry.MODELS.get(name)
    if known and known.file and known.file.sha256 != weights[0].sha256:
        raise ModelError(f"{name} is the name of a known model, and this file is another. Give a name with --name.")
    return known


def publish(store: Store, name: str) -> Checkpoint:
    """The partial folder becomes the model, in one step."""
    target = store.folder(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(store.partial(name), target)
    return store.find(name)


def check_room(store: Store, name: str, size: int) -> None:
    """Raises OutOfSpace where the disk cannot hold a model whose published files have `size` bytes."""
    store.home.mkdir(parents=True, exist_ok=True)
    needed, free = int(size * _ROOM_PER_BYTE) + _ROOM, shutil.disk_usage(store.home).free
    if free < needed:
        raise OutOfSpace(
            f"{name} needs {needed / 1e9:.1f} GB in {store.home}, where {free / 1e9:.1f} GB are free. "
            f"Free some space, or set GHOSTDRAFT_HOME to a folder on a larger disk."
        )


def _check_free_name(store: Store, name: str) -> None:
    if store.has(name):
        raise ModelError(
            f"A model is already called {name}. Give another name with --name, or: ghostdraft models remove {name}"
        )


@contextmanager
def _resumable(folder: Path) -> Iterator[Path]:
    """What an interrupted download left, or an empty folder; gone at the end if it is empty still."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    """An empty folder, gone at the end whatever happened, unless it was renamed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
