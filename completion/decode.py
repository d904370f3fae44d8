"""Prefill in chunks, then the draft/verify loop, as a generator of steps. Knows nothing of text.

Between two runs, and at every step that is handed out, the model's KV cache holds what was read of the prompt, and all
that was generated but for the last token: that one rides along in the next pass, as the prompt's last few tokens do in
the first. A run may be left at any step.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from functools import partial

import numpy as np

from ghostdraft.completion.caches import Caches, Saved
from ghostdraft.completion.types import Cancel, DecodeStats, Prefill, Step, Verify
from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.draft_length import DraftLength, Took
from ghostdraft.drafting.types import ANYTHING, Draft, Drafter, Opening, Verdict
from ghostdraft.drafting.verify import verify, verify_greedy
from ghostdraft.models.costs import GUESS, Costs
from ghostdraft.models.sampling import Sampling, best
from ghostdraft.models.types import FloatArray, IntArray, Interrupted, LanguageModel, Pass

Halted = Callable[[], bool]

WORTH_A_COPY = 32  # tokens: reading them takes longer than copying a cache
LEAST_ROWS = 16  # of a pass that reads a prompt, but for the last one: fewer cost nearly as much
RIDING = 8  # tokens of the prompt, at most, that the first pass takes along: they cost less there than in a pass before


class Decoder:
    """Owns the KV cache of `model`: nothing else may run it meanwhile. `drafter`, `sampling` and `costs` may be
    exchanged between runs."""

    def __init__(
        self,
        model: LanguageModel,
        drafter: Drafter,
        sampling: Sampling,
        costs: Costs = GUESS,
        least_rows: int = LEAST_ROWS,
    ) -> None:
        self.model = model
        self.drafter = drafter
        self.sampling = sampling
        self._kept: list[int] = []  # the tokens whose keys and values the model holds
        self._caches = Caches()  # of other texts
        self._least_rows = least_rows
        self.costs = costs

    @property
    def costs(self) -> Costs:
        """What the model's passes cost: how much is drafted, and how much is read in one pass."""
        return self._costs

    @costs.setter
    def costs(self, costs: Costs) -> None:
        self._costs = costs
        self._pace = PrefillPace(self.model.max_rows, costs, self._least_rows)
        self._forget_acceptance()

    @property
    def drafts(self) -> bool:
        """Whether tokens are drafted; not where that does not pay here."""
        return not self._length.given_up

    def run(
        self,
        prompt_ids: Sequence[int],
        buffers: Sequence[Sequence[int]],
        max_new_tokens: int,
        stop_tokens: Collection[int],
        cancel: Cancel,
        deadline: float | None = None,
        opening: Opening = ANYTHING,
        language: str = "",
    ) -> Iterator[Step]:
        """Ends after `max_new_tokens`, a stop token, a full context, `cancel`, or `deadline` (`time.monotonic()`).

        Until `opening` is met, tokens that it does not allow are taken for impossible.
        Cancel and deadline are looked at before each pass, so a run outlasts them by one pass at most; a pass that is
        interrupted ends the run.
        Raises ValueError for a prompt that is empty or longer than the context.
        """
        if not 0 < len(prompt_ids) <= self.model.context:
            raise ValueError(f"a prompt has 1 to {self.model.context} tokens, not {len(prompt_ids)}")

        def halted() -> bool:
            return cancel.is_set() or (deadline is not None and time.monotonic() >= deadline)

        yield self._begin(prompt_ids, buffers, language)
        try:
            if (yield from self._prefill(prompt_ids, halted, min(RIDING, self.model.max_rows))):
                yield from self._generate(prompt_ids, max_new_tokens, stop_tokens, halted, opening)
        except Interrupted:
            return

    def read(self, prompt_ids: Sequence[int], buffers: Sequence[Sequence[int]], cancel: Cancel) -> Iterator[Step]:
        """Reads all of a prompt but its last token, as `run` would, until `cancel`. Where the cache holds it already,
        what stands there behind it stays: text that was suggested may yet be typed."""
        if common_prefix(self._kept, prompt_ids) >= len(prompt_ids) - 1:
            return
        yield self._begin(prompt_ids, buffers)
        try:
            yield from self._prefill(prompt_ids, cancel.is_set, 1)
        except Interrupted:
            return

    def forget(self) -> None:
        """Empties the caches: the next run starts cold."""
        self._caches.clear()
        self._roll_back(0)

    def unlearn(self) -> None:
        """Forgets what was learned from earlier prompts of drafts and their acceptance (for benches); caches and costs
        stay."""
        self.drafter.reset()
        self._forget_acceptance()

    def _forget_acceptance(self) -> None:
        self._lengths: defaultdict[str, DraftLength] = defaultdict(partial(DraftLength, self._costs))  # by language
        self._length = self._lengths[""]

    def _begin(self, prompt: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> Prefill:
        """Keeps of the cache what the prompt has in common with it."""
        started = time.perf_counter()
        self._turn_to(prompt)
        self._roll_back(min(common_prefix(self._kept, prompt), len(prompt) - 1))
        self.drafter.begin(prompt, buffers, language)
        self._length = self._lengths[language]
        return Prefill((), len(self._kept), time.perf_counter() - started)

    def _turn_to(self, prompt: Sequence[int]) -> None:
        """Another text than the last run's gets its own cache again, if there still is one, and the last is saved."""
        shared = common_prefix(self._kept, prompt)
        known = self._caches.take(prompt, shared + WORTH_A_COPY)
        worth = known is not None or shared + WORTH_A_COPY < len(self._kept) // 2
        if worth and self._caches.make_room(len(self._kept)):
            self._caches.put(Saved(tuple(self._kept), self.model.save()))
        if known:
            self.model.restore(known.state)
            self._kept = list(known.token_ids)

    def _prefill(self, prompt: Sequence[int], halted: Halted, riding: int) -> Generator[Prefill, None, bool]:
        """The prompt up to its last tokens: all but one, or fewer where the rest is `riding` at most. True when that is
        done."""
        while len(prompt) - len(self._kept) > riding:
            if halted():
                return False
            yield self._read(tuple(prompt[len(self._kept) : -1]))
        return True

    def _read(self, pending: tuple[int, ...]) -> Prefill:
        started = time.perf_counter()
        chunk = pending[: self._pace.rows]
        result = self.model.forward(chunk)
        self.drafter.read(len(self._kept), chunk, result)
        self.model.keep(range(len(chunk)))
        self._kept.extend(chunk)
        seconds = time.perf_counter() - started
        self._pace.learn(len(chunk), seconds)
        return Prefill(chunk, seconds=seconds)

    def _generate(
        self, prompt: Sequence[int], remaining: int, stop_tokens: Collection[int], halted: Halted, opening: Opening
    ) -> Iterator[Verify]:
        rng = np.random.default_rng(self.sampling.seed)
        pending = tuple(prompt[len(self._kept) :])
        while remaining > 0 and self._room() > 0 and not halted():
            step = self._step(pending, remaining, stop_tokens, rng, opening)
            yield step
            pending = step.token_ids[-1:]
            for token in step.token_ids:
                opening = opening.after(token)
            remaining -= len(step.token_ids)
            if pending[0] in stop_tokens:
                return

    def _room(self) -> int:
        """How many rows the next pass may have."""
        return min(self.model.max_rows, self.model.context - len(self._kept))

    def _step(
        self,
        pending: tuple[int, ...],
        remaining: int,
        stop_tokens: Collection[int],
        rng: np.random.Generator,
        opening: Opening,
    ) -> Verify:
        started = time.perf_counter()
        asks = self._length.asks()
        draft = self._draft(len(pending), remaining, opening) if asks else Draft()
        drafted = time.perf_counter()
        result = self._pass(pending, draft)
        took = Took(drafted - started, time.perf_counter() - drafted, len(pending) + len(draft))
        verdict = _cut(draft, self._judge(draft, result, opening, rng), stop_tokens)
        accepted = self._commit(pending, draft, verdict, result)
        if asks:
            self._length.learn(draft, len(accepted), took)
        token_ids, seconds = (*accepted, verdict.next_token), time.perf_counter() - started
        return Verify(token_ids, len(draft), len(accepted), len(pending) - 1, seconds, took.drafting, asks)

    def _draft(self, pending: int, remaining: int, opening: Opening) -> Draft:
        """What pays, and fits behind so many pending tokens."""
        room = min(remaining - 1, self._room() - pending)
        draft = self.drafter.propose(room, opening, self._length.price)
        return self._length.worth(draft.first(room), pending - 1)

    def _pass(self, pending: tuple[int, ...], draft: Draft) -> Pass:
        """One over the tokens that the cache does not hold yet and the draft; logits of the last of them and of all
        drafted."""
        known = len(pending)
        return self.model.forward(
            (*pending, *draft.token_ids),
            range(known - 1, known + len(draft)),
            (*range(-1, known - 1), *(parent + known for parent in draft.parents)),
        )

    def _commit(self, pending: tuple[int, ...], draft: Draft, verdict: Verdict, result: Pass) -> tuple[int, ...]:
        """Rolls back to what stands, and tells who learns from it; the drafted tokens that were accepted."""
        known = len(pending)
        accepted = tuple(draft.token_ids[i] for i in verdict.accepted)
        self.model.keep((*range(known), *(i + known for i in verdict.accepted)))
        self._kept.extend((*pending, *accepted))
        self.drafter.observe(draft, verdict, result)
        return accepted

    def _judge(self, draft: Draft, result: Pass, opening: Opening, rng: np.random.Generator) -> Verdict:
        """Leaves logits where they are as long as nobody needs them."""
        openings = _openings(draft, opening)
        if self.sampling.greedy:
            return verify_greedy(draft, lambda row: _best(result, row, openings[row]))
        _restrict(result.logits, openings)
        return verify(draft, result.logits, self.sampling, rng)

    def _roll_back(self, length: int) -> None:
        self.model.truncate(length)
        del self._kept[length:]


class PrefillPace:
    """How many rows make a prefill pass of about `TARGET` seconds here: what an interrupted one loses.

    It begins with what the costs say, and follows the machine as it is now. A row costs the more the fewer ride along,
    so going by the last pass's rate errs to the safe side when growing; `rows` at most doubles, and is never below
    `least`.
    """

    TARGET = 0.060
    BLOCK = 8  # rows: a multiple of this keeps the kernels full

    def __init__(self, most: int, costs: Costs, least: int = LEAST_ROWS) -> None:
        self._most = most
        self._least = least
        self.rows = self._whole(costs.prefill_rows(self.TARGET, most))

    def learn(self, rows: int, seconds: float) -> None:
        """A pass over `rows` took `seconds`. A quick one that was not full says nothing of fuller ones."""
        if rows < self.rows and seconds <= self.TARGET:
            return
        affordable = int(rows * self.TARGET / max(seconds, 1e-6))
        self.rows = self._whole(min(affordable, 2 * self.rows))

    def _whole(self, rows: int) -> int:
        """Blocks of rows within the bounds."""
        return min(max(rows - rows % self.BLOCK, self._least), self._most)


def _openings(draft: Draft, opening: Opening) -> list[Opening]:
    """[1 + len(draft)] what is left of the opening behind each row's path."""
    openings = [opening]
    for token, parent in zip(draft.token_ids, draft.parents, strict=True):
        openings.append(openings[parent + 1].after(token))
    return openings


def _allowed(left: Opening) -> IntArray:
    """Empty where any token may follow, as the opening is met or void."""
    return ANYTHING.allowed() if left.met else left.allowed()


def _best(result: Pass, row: int, left: Opening) -> int:
    """The token of the largest logit that the opening allows; of equal ones the lowest id."""
    if len(allowed := _allowed(left)):
        logits = result.logits[row][allowed]
        return int(allowed[logits == logits.max()].min())
    return best(result.logits[row]) if result.best is None else int(result.best[row])


def _restrict(logits: FloatArray, openings: Sequence[Opening]) -> None:
    """Of `logits` [n, vocab], in place: what a row's opening does not allow gets -inf."""
    for row, left in zip(logits, openings, strict=True):
        if len(allowed := _allowed(left)):
            only = row[allowed]
            row[:] = -np.inf
            row[allowed] = only


def _cut(draft: Draft, verdict: Verdict, stop_tokens: Collection[int]) -> Verdict:
    """Ends an accepted run at its first stop token, which is then what the target says after the rest."""
    for depth, node in enumerate(verdict.accepted):
        if draft.token_ids[node] in stop_tokens:
            return Verdict(verdict.accepted[:depth], draft.token_ids[node])
    return verdict


def count(stats: DecodeStats, step: Step) -> None:
    """Adds what `step` did to `stats`."""
    if isinstance(step, Prefill):
        stats.reused_tokens += step.reused
        stats.read_tokens += len(step.token_ids)
        stats.prefill_ms += 1000 * step.seconds
        return
    stats.steps += 1
    stats.read_tokens += step.riding
    stats.generated_tokens += len(step.token_ids)
    stats.undrafted_steps += not step.asked
    stats.drafted += step.drafted
    stats.accepted += step.accepted
    stats.decode_ms += 1000 * step.seconds
    stats.draft_ms += 1000 * step.drafting
    missing = step.accepted - len(stats.accepted_per_position)
    stats.accepted_per_position.extend([0] * missing)
    for depth in range(step.accepted):
        stats.accepted_per_position[depth] += 1
