"""How fetching and installing tell whoever waits what they do. Knows nothing of how it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    WAITING = "waiting for another download of it"
    DOWNLOADING = "downloading"
    COPYING = "copying"
    CHECKING = "checking"
    CONVERTING = "converting"


Advance = Callable[[int], None]  # so many bytes of the present file are here


@dataclass(frozen=True, slots=True)
class Offer:
    """What would be downloaded: known before the download starts. `size` in bytes; `sha256` where it is one file."""

    name: str
    origin: str
    licence: str
    size: int
    sha256: str | None


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Watch:
    """Callbacks; one that raises ends the work, and the store stays as it was.

    `offered` before a download; `noted` a sentence for the user: a source that did not give it, an engine that does
    not cover it; `advanced` the stage and how much of it is done (done, total; 0 of 0 where that is not known).
    """

    offered: Callable[[Offer], None] = _ignore
    noted: Callable[[str], None] = _ignore
    advanced: Callable[[Stage, int, int], None] = _ignore


def from_byte(watch: Watch, stage: Stage, start: int, total: int) -> Advance:
    """The `Advance` of a file before which `start` of `total` bytes were done."""
    return lambda done: watch.advanced(stage, start + done, total)
