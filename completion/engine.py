"""From a snapshot of the buffer to the text to show: the whole data path. Knows nothing of editors or protocols."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from ghostdraft.completion.buffers import Buffers
from ghostdraft.completion.context import DEFAULT_WINDOW, Window, gather, line_end
from ghostdraft.completion.decode import Decoder, count
from ghostdraft.completion.postprocess import Insert, presentable
from ghostdraft.completion.prompt import Opening, Prompter, Spellings
from ghostdraft.completion.scene import Scene, look
from ghostdraft.completion.stopping import Stop, Stopper
from ghostdraft.completion.stream import TextStream
from ghostdraft.completion.syntax import Trees
from ghostdraft.completion.types import Budget, Cancel, Completion, DecodeStats, Prompt, Snapshot, StopReason
from ghostdraft.drafting.measuring import Measuring
from ghostdraft.drafting.types import Drafter
from ghostdraft.models.costs import GUESS, CostStore
from ghostdraft.models.load import GPUS
from ghostdraft.models.registry import control_tokens
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import LanguageModel, ModelSpec, Tokenizer

LEAST_WINDOW = 64  # code points of prefix, below which tokens are cut off instead
CHAT_MARKERS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NOTHING = "", Stop(StopReason.EMPTY, 0)
UNDRAFTED = "Drafting does not pay here now, so tokens come one by one."
TELLING = (StopReason.CANCELLED, StopReason.DEADLINE, StopReason.SUFFIX, StopReason.REPETITION)


class Loaded(Protocol):
    """A model that is ready to run; `ghostdraft.models.load.Loaded` is one."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def model(self) -> LanguageModel: ...

    @property
    def device(self) -> str: ...

    @property
    def costs(self) -> CostStore: ...

    @property
    def note(self) -> str: ...


class Engine:
    """Owns the model's cache: one request at a time. `drafter` and `sampling` may be exchanged between requests."""

    def __init__(self, loaded: Loaded, drafter: Drafter, sampling: Sampling, window: Window = DEFAULT_WINDOW) -> None:
        self._note = loaded.note
        self.on_gpu = loaded.device in GPUS
        self.decoder = Decoder(loaded.model, drafter, sampling, loaded.costs.read() or GUESS)
        self._costs = loaded.costs
        self._measuring = Measuring(loaded.model)
        self._tokenizer = loaded.tokenizer
        self._hidden = frozenset((*loaded.spec.stop_tokens, *loaded.spec.special_tokens))
        self._markers = _markers(loaded.spec)
        self._prompter = Prompter(loaded.spec, loaded.tokenizer, window)
        self._buffers = Buffers(loaded.tokenizer)
        self._trees = Trees()
        self._window = window

    @property
    def note(self) -> str:
        """For the user, where the model does not run as it might."""
        return " ".join(filter(None, (self._note, "" if self.decoder.drafts else UNDRAFTED)))

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:
        """What to show at the snapshot's cursor; never raises for anything in the text.

        Prefill that was done before a deadline or a cancellation stays in the model's cache.
        """
        started = time.perf_counter()
        stats = DecodeStats()
        scene = look(snapshot, self._trees)
        written, stop = NOTHING if _is_blank(snapshot) else self._write(snapshot, scene, budget, cancel, stats)
        insert = presentable(written[: stop.keep], scene, self._markers)
        stats.total_ms = 1000 * (time.perf_counter() - started)
        return _completion(snapshot, insert, stop.reason, stats)

    def read_ahead(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> None:
        """Does what `complete` does before it writes, as far as that is not done yet: an answer comes sooner then."""
        if _is_blank(snapshot):
            return
        _ = self._spellings  # takes a moment to build
        prompt, buffers = self._prompt(snapshot, budget), self._buffers.tokens(snapshot)
        for _ in self.decoder.read(prompt.token_ids, buffers, cancel):
            pass
        while self._buffers.waiting and not cancel.is_set():
            self._buffers.tokens(snapshot)
        if snapshot.uri not in self._trees and not cancel.is_set():
            _ = look(snapshot, self._trees).literal  # takes a whole parse

    @property
    def measured(self) -> bool:
        """Whether it is known what the model's passes cost here."""
        return self.decoder.costs is not GUESS

    def measure(self, cancel: Cancel) -> None:
        """Goes on to find out, within 10 seconds in all; what the cache holds stays. Raises OSError where the outcome,
        which holds from now on, cannot be kept for the next start."""
        costs = self._measuring.go_on(cancel.is_set)
        if costs is not None:
            self.decoder.costs = costs
            self._costs.write(costs)

    def interrupt(self) -> None:
        """From another thread, once the running request is cancelled: the model stops within its pass."""
        self.decoder.model.interrupt()

    def close(self) -> None:
        """Frees the model's memory. Nothing may be asked of this engine afterwards."""
        self.decoder.forget()
        self.decoder.model.close()

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self._tokenizer, self.decoder.model.shape.vocab, self._hidden)

    def _write(
        self, snapshot: Snapshot, scene: Scene, budget: Budget, cancel: Cancel, stats: DecodeStats
    ) -> tuple[str, Stop]:
        """What the model wrote behind the cursor, and where it ends."""
        prompt = self._prompt(snapshot, budget)
        buffers = self._buffers.tokens(snapshot)
        opening = Opening(prompt.lead.encode(), self._spellings)
        steps = self.decoder.run(
            prompt.token_ids, buffers, prompt.max_new_tokens, self._hidden, cancel, budget.deadline, opening,
            snapshot.language_id,
        )  # fmt: skip
        stream = TextStream(self._tokenizer, self._hidden, skip=len(prompt.lead))
        stopper = Stopper(scene)
        stats.prompt_tokens = len(prompt.token_ids)
        for step in steps:
            count(stats, step)
            if stopper.feed(stream.feed(step)) or stream.ended:
                break
            if stopper.has_line and _is_past(budget.line_enough):
                stopper.close(StopReason.DEADLINE)
                break
        stop = stopper.close(_why_ended(stream, budget, cancel))
        stats.kept_tokens = stream.tokens_within(stop.keep)
        return stopper.text, Stop(StopReason.CANCELLED, 0) if cancel.is_set() else stop

    def _prompt(self, snapshot: Snapshot, budget: Budget) -> Prompt:
        """The prompt of the largest window that leaves room for the answer in the model's context."""
        context, window = self.decoder.model.context, self._window
        answer = min(budget.max_tokens, context // 4)
        room = context - answer
        while True:
            prompt = self._prompter.build(gather(snapshot, window), answer)
            if len(prompt.token_ids) <= room or window.prefix <= LEAST_WINDOW:
                return replace(prompt, token_ids=prompt.token_ids[-room:])
            window = window.halved()


def _is_blank(snapshot: Snapshot) -> bool:
    """Says nothing, not even the language."""
    return not snapshot.text or snapshot.text.isspace()


def _why_ended(stream: TextStream, budget: Budget, cancel: Cancel) -> StopReason:
    if cancel.is_set():
        return StopReason.CANCELLED
    if stream.ended:
        return StopReason.END_OF_TEXT
    return StopReason.DEADLINE if _is_past(budget.deadline) else StopReason.MAX_TOKENS


def _is_past(limit: float | None) -> bool:
    """None: there is no limit."""
    return limit is not None and time.monotonic() >= limit


def _markers(spec: ModelSpec) -> Sequence[str]:
    """Names of special tokens, as a model might spell them in plain text."""
    fim = [token for template in spec.fim for token in control_tokens(template)]
    return [*fim, *filter(None, (spec.repo_token, spec.file_token)), *CHAT_MARKERS]


def _completion(snapshot: Snapshot, insert: Insert, reason: StopReason, stats: DecodeStats) -> Completion:
    if not insert.text and reason not in TELLING:
        reason = StopReason.EMPTY
    end = line_end(snapshot.text, snapshot.cursor) if insert.over_rest else snapshot.cursor
    return Completion(insert.text, snapshot.cursor, end, reason, stats, insert.ghost)
