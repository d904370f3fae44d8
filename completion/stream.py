"""From tokens to text as they come. Never shows half a character, nor a special token. Knows nothing of stop rules."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence

from ghostdraft.models.types import Tokenizer

BROKEN = "\ufffd"


class TextStream:
    """The text of one run. `ended`: a token came that is never shown, or bytes that are no UTF-8; what follows it
    is dropped."""

    def __init__(self, tokenizer: Tokenizer, hidden: Collection[int]) -> None:
        self.ended = False
        self.ends: list[int] = []  # per token, how many code points were whole behind it
        self._tokenizer = tokenizer
        self._hidden = hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._length = 0

    def feed(self, token_ids: Sequence[int]) -> str:
        """The code points that these tokens made whole."""
        return "".join(self._next(token) for token in token_ids)

    def _next(self, token: int) -> str:
        self.ended = self.ended or token in self._hidden
        if self.ended:
            return ""
        text, broken, _ = self._decoder.decode(self._tokenizer.decode_bytes([token])).partition(BROKEN)
        self.ended = bool(broken)
        self._length += len(text)
        self.ends.append(self._length)
        return text
