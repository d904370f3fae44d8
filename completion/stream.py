"""From steps to text as they come. Never shows half a character, nor a special token. Knows nothing of stop rules."""

from __future__ import annotations

import codecs
from collections.abc import Collection

from ghostdraft.completion.types import Prefill, Step
from ghostdraft.models.types import Tokenizer

BROKEN = "\ufffd"


class TextStream:
    """The text of one run, but for its first `skip` code points. `ended`: a token of `hidden` came, which is never
    shown, or bytes that are no UTF-8; what follows is dropped."""

    def __init__(self, tokenizer: Tokenizer, hidden: Collection[int], skip: int = 0) -> None:
        self.ended = False
        self._ends: list[int] = []  # per token, how many code points were whole behind it
        self._skip = skip
        self._tokenizer = tokenizer
        self._hidden = hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._length = 0

    def feed(self, step: Step) -> str:
        """The code points that the step's tokens made whole."""
        if isinstance(step, Prefill):
            return ""
        before = self._length
        text = "".join(map(self._next, step.token_ids))
        return text[max(self._skip - before, 0) :]

    def tokens_within(self, length: int) -> int:
        """How many of the tokens end within the first `length` code points shown."""
        return sum(end <= self._skip + length for end in self._ends)

    def _next(self, token: int) -> str:
        self.ended = self.ended or token in self._hidden
        if self.ended:
            return ""
        text, broken, _ = self._decoder.decode(self._tokenizer.decode_bytes([token])).partition(BROKEN)
        self.ended = bool(broken)
        self._length += len(text)
        self._ends.append(self._length)
        return text
