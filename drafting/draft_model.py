"""A small language model of its own that follows the target's text in a cache of its own (Leviathan et al. 2023).

It sees the last tokens only, as many as it was trained on: what it says stays good, and reading stays cheap.
"""

from __future__ import annotations

from collections.abc import Sequence

from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.types import FloatArray, IntArray, LanguageModel, Pass

WINDOW = 512  # tokens, at least, where there are as many
SLIDE = 256  # tokens that it grows by before it moves
CONTEXT = WINDOW + SLIDE + 64  # tokens: with a draft behind it


class DraftModel:
    """A `Guesser`. `model` tells logits of the tokens `vocabulary` [draft vocab]; its context is `CONTEXT` at least."""

    def __init__(self, name: str, model: LanguageModel, vocabulary: IntArray) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self._model = model
        self._text: list[int] = []  # prompt and output, all that stands
        self._start = 0  # where the window begins
        self._read: list[int] = []  # what the model's cache holds, from there on

    def begin(self, token_ids: Sequence[int]) -> None:
        self._text = list(token_ids)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:  # noqa: ARG002
        self._catch_up(at + len(token_ids))

    def follow(self) -> FloatArray | None:
        result = self._catch_up(len(self._text))
        return None if result is None else self._known(result)

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        rows = range(len(token_ids) - fresh, len(token_ids))
        return self._known(self._pass(token_ids, rows, parents))

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._text.extend((*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token))

    def _pass(self, token_ids: Sequence[int], logit_rows: Sequence[int], parents: Sequence[int] | None = None) -> Pass:
        """For tokens that the model has not its last one stands."""
        last = self._model.shape.vocab - 1
        return self._model.forward([min(token, last) for token in token_ids], logit_rows, parents)

    def _known(self, result: Pass) -> FloatArray:
        """Without what stands for padding, or for tokens that the target has not."""
        return result.logits[:, : len(self.vocabulary)]

    def _catch_up(self, end: int) -> Pass | None:
        """Reads the text up to there, with the logits behind it; None where the window does not reach so far."""
        self._move()
        wanted = self._text[self._start : end]
        self._truncate(min(common_prefix(self._read, wanted), max(0, len(wanted) - 1)))
        result = None
        while len(self._read) < len(wanted):
            rows = wanted[len(self._read) :][: self._model.max_rows]
            result = self._pass(rows, [len(rows) - 1])
            self._model.keep(range(len(rows)))
            self._read.extend(rows)
        return result

    def _move(self) -> None:
        start = window_start(self._start, len(self._text))
        if start != self._start:
            self._truncate(0)
            self._start = start

    def _truncate(self, length: int) -> None:
        self._model.truncate(length)
        del self._read[length:]


def window_start(start: int, length: int) -> int:
    """Where the window over a text of so many tokens begins: at `start`, as long as it may."""
    if 0 <= length - start <= WINDOW + SLIDE and (start == 0 or length - start >= WINDOW):
        return start
    return max(0, length - WINDOW)
