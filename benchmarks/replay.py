"""What a replay of typing counts: which pauses are looked at, what came in them, and what was computed for nothing.

A pause of at least `LEAST_PAUSE` is one sample: the time from its first key to text that can be shown. As typed, the
next key ends the wait, and what has not come by then, or came empty, was not shown. To compare engines the same keys
are typed once more, and each pause lasts until the answer is there, however long: a slow engine then shows its time,
where it would else only show less often. Answers are always asked for: none is taken from what was shown before.

Knows no clock, no server and no model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ghostdraft.benchmarks.typing_model import Keystroke

LEAST_PAUSE = 0.3  # seconds
LINES = 4  # of each hole are typed

FIRST_LINE = re.compile(r"\s*\S[^\n]*")


@dataclass(frozen=True, slots=True)
class Press:
    """A key that was pressed: `gap` is the time until the next one by the typing model, infinite behind the last.

    `version` is the document's from then on, `request` what was asked for behind the key.
    """

    text: str
    at: float
    gap: float
    version: int
    request: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came for a request, and when, in the seconds of the keys; empty text: nothing to show."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """What the engine did for the document's `version`, in tokens: `reused` stood in its cache, `computed` were read
    or generated, or stood in a pass that was interrupted before and not gone on with. `model_ms` went into reading and
    writing them. `ahead`: they were read before anybody asked, and there is no prompt."""

    version: int
    prompt: int
    reused: int
    computed: int
    model_ms: float = 0.0
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """A pause: `seconds` from its key to the text, None where nothing was shown; `exact` if the first line of it is
    the hole's own."""

    seconds: float | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Work:
    """`cancelled`: nobody waited for the answer any more, or nobody had asked."""

    note: Note
    cancelled: bool


NOBODY = Work(Note(0, 0, 0, 0), cancelled=False)  # stands behind the last request


@dataclass(frozen=True, slots=True)
class Replay:
    """One hole typed once: its samples, the requests' work in order, and seconds of typing and of the processor."""

    samples: tuple[Sample, ...]
    works: tuple[Work, ...]
    typed: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Replays with one engine. `waits` has the samples' seconds in the order of the keys, which all engines share."""

    waits: tuple[float | None, ...]
    exact: int
    prompt_tokens: int
    reused_tokens: int
    computed_tokens: int
    cancelled_tokens: int
    typed: float
    cpu: float

    @property
    def shown(self) -> list[float]:
        """The seconds of what was shown, ascending."""
        return sorted(wait for wait in self.waits if wait is not None)

    def as_json(self) -> dict[str, Any]:
        shown = self.shown
        return {
            "pauses": len(self.waits),
            "shown": len(shown),
            "shown_rate": round(len(shown) / max(1, len(self.waits)), 4),
            **{f"p{share}_ms": _milliseconds(percentile(shown, share)) for share in (50, 90, 95)},
            "exact_first_lines": self.exact,
            "prompt_tokens": self.prompt_tokens,
            "reused_tokens": self.reused_tokens,
            "computed_tokens": self.computed_tokens,
            "cancelled_tokens": self.cancelled_tokens,
            "typed_seconds": round(self.typed, 2),
            "cpu_seconds": round(self.cpu, 2),
            "cpu_seconds_per_typed_minute": round(60 * self.cpu / self.typed, 2) if self.typed else 0.0,
            "waits_ms": [_milliseconds(wait) for wait in self.waits],
        }


def typed_part(body: str) -> str:
    """What of a hole's text is typed."""
    return "\n".join(body.split("\n")[:LINES])


def gaps(strokes: Sequence[Keystroke]) -> list[float]:
    """Behind each key, the seconds until the next one; infinite behind the last."""
    return [*(following.at - key.at for key, following in pairwise(strokes)), math.inf]


def is_sampled(gap: float) -> bool:
    return LEAST_PAUSE <= gap < math.inf


def in_time(presses: Sequence[Press], answers: Mapping[int, Answer]) -> dict[int, Answer]:
    """The answers that came before the next key, by the document's version. That key comes late where it waits."""
    ends = [*(following.at for following in presses[1:]), math.inf]
    return {
        press.version: answer
        for press, end in zip(presses, ends, strict=True)
        if press.request is not None and (answer := answers.get(press.request)) and answer.at < end
    }


def samples(presses: Sequence[Press], answers: Mapping[int, Answer], body: str) -> Iterator[Sample]:
    """One a pause; `body` is what the hole held."""
    came, written = in_time(presses, answers), 0
    for press in presses:
        written += len(press.text)
        if is_sampled(press.gap):
            yield _sample(press, came.get(press.version), body[written:])


def _sample(press: Press, answer: Answer | None, truth: str) -> Sample:
    if answer is None or not answer.text.strip():
        return Sample(None, False)
    return Sample(answer.at - press.at, first_line(answer.text) == first_line(truth))


def first_line(text: str) -> str:
    """Up to the end of the first line that is not blank: behind a whole line the next one is what is suggested."""
    found = FIRST_LINE.match(text)
    return found[0].rstrip() if found else ""


def works(notes: Iterable[Note], presses: Sequence[Press], answers: Mapping[int, Answer]) -> list[Work]:
    """The engine's notes, and which of them were for no answer that came in time."""
    came = in_time(presses, answers)
    return [Work(note, note.ahead or note.version not in came) for note in notes]


def cancelled_tokens(works: Sequence[Work]) -> int:
    """The tokens computed for nothing: those of cancelled requests, or read ahead, that were not found in the cache by
    what was computed next.

    What a request had found itself is not its own work; behind the last one nobody looks.
    """
    pairs = pairwise([*works, NOBODY])
    return sum(_lost(work.note, following.note) for work, following in pairs if work.cancelled)


def _lost(note: Note, following: Note) -> int:
    found = max(following.reused - note.reused, 0)
    return max(note.computed - found, 0)


def percentile(ascending: Sequence[float], share: int) -> float | None:
    """The least value that `share` percent of the values do not exceed; None where there are none."""
    rank = -(-share * len(ascending) // 100)
    return ascending[rank - 1] if rank else None


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 1)


def summarise(replays: Sequence[Replay]) -> Summary:
    samples = [one for replay in replays for one in replay.samples]
    notes = [work.note for replay in replays for work in replay.works]
    asked = [note for note in notes if not note.ahead]
    return Summary(
        waits=tuple(one.seconds for one in samples),
        exact=sum(one.exact for one in samples),
        prompt_tokens=sum(note.prompt for note in asked),
        reused_tokens=sum(note.reused for note in asked),
        computed_tokens=sum(note.computed for note in notes),
        cancelled_tokens=sum(cancelled_tokens(replay.works) for replay in replays),
        typed=sum(replay.typed for replay in replays),
        cpu=sum(replay.cpu for replay in replays),
    )
