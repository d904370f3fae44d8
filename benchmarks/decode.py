"""Drafted against one-token decoding, at holes, on the data path that a user runs: same prompts, rules and engine.

At each hole every drafter writes the same text several times, taking turns; what a drafter learned is forgotten before
each time. The prompt is in the model's cache then and was shown to the drafter, as while one types, so times are those
of decoding alone: drafting, passes and stop rules. Only tokens that the stop and repetition rules leave standing count.
Knows nothing of how results are shown.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeVar

from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.engine import Engine, Loaded
from ghostdraft.completion.types import Budget, Snapshot, Step, Verify
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import Draft, Drafter, Verdict
from ghostdraft.models.costs import Costs
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import LanguageModel, Pass

MOST_TOKENS = 64  # at one hole
REPETITIONS = 3

T = TypeVar("T")
Advance = Callable[[int], None]  # so many holes are done


@dataclass(frozen=True, slots=True)
class Run:
    """What one drafter did once at one hole. `token_ids` are those left standing, `steps` the passes that took;
    `seconds` is all of the decoding, what the rules threw away included; `predicted`, how long that takes by the cost
    model, with the drafts as measured; `drafting`, those alone. `accepted_at[i]`: steps that accepted i + 1 or more."""

    token_ids: tuple[int, ...]
    steps: int
    drafted: int
    accepted: int
    seconds: float
    predicted: float = 0.0
    drafting: float = 0.0
    accepted_at: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """What another engine has to do for the same: a prompt, and how many tokens one-token decoding wrote behind it up
    to its stop, what the rules then threw away included."""

    prompt: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Trial:
    """One drafter at one hole: its runs, in the order in which all drafters took turns."""

    language: str
    runs: tuple[Run, ...]

    @property
    def tokens(self) -> int:
        return len(self.runs[0].token_ids)

    @property
    def seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)


@dataclass(frozen=True, slots=True)
class Summary:
    """A drafter over many holes, held against one-token decoding.

    `speedup` is the ratio of the times for all tokens, `speedup_median` the median over the holes, with the quartiles;
    a hole's time is the median of its runs. `identical`: every run wrote the very tokens of one-token decoding.
    `predicted`: the speedup by the cost model. `draft_ms` a step; `accepted_at[i]`: the share of steps that accepted
    i + 1 tokens or more.
    """

    tokens_per_second: float
    speedup: float
    speedup_quartiles: tuple[float, float, float]
    tokens_per_step: float
    acceptance: float
    identical: bool
    cursors: int
    tokens: int
    predicted: float
    draft_ms: float
    accepted_at: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        low, median, high = self.speedup_quartiles
        return {
            "tokens_per_second": round(self.tokens_per_second, 2),
            "speedup": round(self.speedup, 3),
            "tokens_per_step": round(self.tokens_per_step, 3),
            "acceptance": round(self.acceptance, 3),
            "identical": self.identical,
            "speedup_median": round(median, 3),
            "speedup_quartiles": [round(low, 3), round(high, 3)],
            "cursors": self.cursors,
            "tokens": self.tokens,
            "predicted_speedup": round(self.predicted, 3),
            "draft_ms": round(self.draft_ms, 3),
            "accepted_at": [round(share, 3) for share in self.accepted_at],
        }


def measure(
    loaded: Loaded, drafters: Sequence[Drafter], cursors: Sequence[Cursor], tokens: int, advance: Advance
) -> dict[str, list[Trial]]:
    """By drafter's name, a trial at each cursor; the first drafter is what the others are held against."""
    bench = Bench(loaded, drafters, tokens)
    trials: dict[str, list[Trial]] = {drafter.name: [] for drafter in drafters}
    for done, cursor in enumerate(cursors, start=1):
        for name, trial in bench.at(cursor).items():
            trials[name].append(trial)
        advance(done)
    return trials


class Bench:
    def __init__(self, loaded: Loaded, drafters: Sequence[Drafter], tokens: int) -> None:
        self._drafters = drafters
        self._budget = Budget(min(tokens, MOST_TOKENS))
        self._engine = Engine(loaded, drafters[0], Sampling.GREEDY)
        costs = self._engine.decoder.costs
        self._tape = self._engine.decoder = Tape(loaded.model, drafters[0], Sampling.GREEDY, costs)

    def at(self, cursor: Cursor) -> dict[str, Trial]:
        self.read(cursor)
        runs: dict[str, list[Run]] = {drafter.name: [] for drafter in self._drafters}
        for turn in range(REPETITIONS):
            for drafter in rotated(self._drafters, turn):
                runs[drafter.name].append(self.run(drafter))
        return {name: Trial(cursor.language, tuple(of)) for name, of in runs.items()}

    def read(self, cursor: Cursor) -> Task:
        """A first run of one-token decoding, which does not count, brings the prompt into the cache and shows it to all
        drafters; the next ones are at this cursor."""
        self._snapshot = Snapshot(f"file:///{cursor.name}", 0, cursor.language, cursor.text, cursor.offset)
        self.run(Audience(self._drafters))
        return self._tape.task

    def run(self, drafter: Drafter) -> Run:
        self._tape.drafter = drafter
        self._tape.unlearn()
        self._tape.clear()
        completion = self._engine.complete(self._snapshot, self._budget, threading.Event())
        return self._tape.run_until(completion.stats.kept_tokens)


class Audience(NoDrafter):
    """One-token decoding that drafters listen to."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = drafters

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:
        for drafter in self._drafters:
            drafter.begin(token_ids, buffers, language)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        for drafter in self._drafters:
            drafter.read(at, token_ids, result)

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        for drafter in self._drafters:
            drafter.observe(draft, verdict, result)


@dataclass
class _Reel:
    prompt: tuple[int, ...] = ()
    steps: list[Verify] = field(default_factory=list)
    seconds: float = 0.0
    since: float = 0.0


class Tape(Decoder):
    """A decoder that remembers the steps it handed out and the time from the end of the prompt to the last of them."""

    def __init__(self, model: LanguageModel, drafter: Drafter, sampling: Sampling, costs: Costs) -> None:
        super().__init__(model, drafter, sampling, costs)
        self.clear()

    def clear(self) -> None:
        self._reel = _Reel()

    def run(self, prompt_ids: Sequence[int], buffers: Sequence[Sequence[int]], *limits: Any) -> Iterator[Step]:
        self._reel.prompt = tuple(prompt_ids)
        self.drafter.begin(prompt_ids, buffers)
        for step in super().run(prompt_ids, buffers, *limits):
            self._note(step)
            yield step

    def _note(self, step: Step) -> None:
        reel, now = self._reel, time.perf_counter()
        if isinstance(step, Verify):
            reel.steps.append(step)
            reel.seconds += now - reel.since
        reel.since = now

    @property
    def task(self) -> Task:
        return Task(self._reel.prompt, sum(len(step.token_ids) for step in self._reel.steps))

    def run_until(self, kept: int) -> Run:
        """The steps up to the one that brought the last of `kept` tokens; all of the time."""
        used, token_ids = [], list[int]()
        for step in self._reel.steps:
            if len(token_ids) < kept:
                used.append(step)
                token_ids.extend(step.token_ids)
        depths = range(max((step.accepted for step in used), default=0))
        return Run(
            tuple(token_ids[:kept]),
            len(used),
            sum(step.drafted for step in used),
            sum(step.accepted for step in used),
            self._reel.seconds,
            sum(self._predicted(step) for step in self._reel.steps),
            sum(step.drafting for step in self._reel.steps),
            tuple(sum(step.accepted > depth for step in used) for depth in depths),
        )

    def _predicted(self, step: Verify) -> float:
        return step.drafting + self.costs.verify_seconds(1 + step.riding + step.drafted)


def summarise(trials: Sequence[Trial], baseline: Sequence[Trial]) -> Summary:
    """Of one drafter, held against one-token decoding at the same holes. Holes where nothing stands count as time."""
    tokens, seconds = sum(trial.tokens for trial in trials), sum(trial.seconds for trial in trials)
    runs = [run for trial in trials for run in trial.runs]
    drafted, steps = sum(run.drafted for run in runs), sum(run.steps for run in runs)
    return Summary(
        tokens_per_second=tokens / seconds,
        speedup=sum(trial.seconds for trial in baseline) / seconds,
        speedup_quartiles=quartiles([one.seconds / trial.seconds for trial, one in _pairs(trials, baseline)]),
        tokens_per_step=sum(len(run.token_ids) for run in runs) / max(1, steps),
        acceptance=sum(run.accepted for run in runs) / drafted if drafted else 0.0,
        identical=all(
            run.token_ids == other.runs[0].token_ids
            for trial, other in zip(trials, baseline, strict=True)
            for run in trial.runs
        ),
        cursors=len(trials),
        tokens=tokens,
        predicted=_predicted(baseline) / max(_predicted(trials), 1e-9),
        draft_ms=1000 * sum(run.drafting for run in runs) / max(1, steps),
        accepted_at=tuple(
            sum(counts) / steps for counts in zip_longest(*(run.accepted_at for run in runs), fillvalue=0)
        ),
    )


def _shares(counts: Sequence[Sequence[int]], steps: int) -> tuple[float, ...]:
    return tuple(sum(at_depth) / steps for at_depth in zip_longest(*counts, fillvalue=0))


def _predicted(trials: Sequence[Trial]) -> float:
    """Seconds, of a run at each hole."""
    return sum(statistics.median(run.predicted for run in trial.runs) for trial in trials)


def by_language(trials: Sequence[Trial], baseline: Sequence[Trial]) -> dict[str, Summary]:
    """A summary for each language that the holes are in."""
    pairs = list(zip(trials, baseline, strict=True))
    return {
        language: summarise(*zip(*(pair for pair in pairs if pair[0].language == language), strict=True))
        for language in sorted({trial.language for trial in trials})
    }


def _pairs(trials: Sequence[Trial], baseline: Sequence[Trial]) -> Iterator[tuple[Trial, Trial]]:
    return ((trial, one) for trial, one in zip(trials, baseline, strict=True) if trial.tokens)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower one, the median and the upper one."""
    if len(values) < 2:
        return (values[0],) * 3 if values else (1.0,) * 3
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def rotated(contenders: Sequence[T], turn: int) -> Sequence[T]:
    """Each turn begins with the next one."""
    first = turn % len(contenders)
    return [*contenders[first:], *contenders[:first]]
