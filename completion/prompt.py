"""From a window of text to the tokens of a prompt, by the model's own fill-in-the-middle template.

Special tokens come from the template alone: one that stands in the user's text is plain text. Line breaks are \\n to
the model. Knows nothing of how text is chosen, nor of what becomes of the answer.

The text before the cursor seldom ends where a token does: after "    retu" no model says "rn". So the last word is left
out together with the marks and the blank before it, and the model has to begin with it (`Prompt.lead`, `Opening`):
token healing (Lundberg 2023). In a template that does not end with this text the middle begins that much earlier.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np

from ghostdraft.completion.context import DEFAULT_WINDOW, Window, with_line_feeds
from ghostdraft.completion.types import Context, Prompt
from ghostdraft.models.types import FimTemplate, IntArray, ModelSpec, Tokenizer

LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
LEAST_SUFFIX = 2  # lines that are not blank: less says too little
MOST_LEAD = 24  # code points
STEP = 128  # code points of a piece whose tokens are remembered, on average
DOCUMENTS = 4  # whose pieces are remembered
BEFORE_WORDS = re.compile(r"(?<=\S)(?= [A-Za-z])")
WORDS = ("one", " two(three),", " four")
UNFINISHED = re.compile(r"[ \t]?(?:[^\w\s]|_)*[^\W\d_]*\Z")
PLAIN = (FimTemplate.PREFIX,)


class Prompter:
    """Builds the prompts of one model, from contexts of at most `window`."""

    def __init__(self, spec: ModelSpec, tokenizer: Tokenizer, window: Window = DEFAULT_WINDOW) -> None:
        most = DOCUMENTS * (window.prefix // STEP + 2)  # two: what is left of the prefix, and the suffix
        self._tokenizer = tokenizer
        self._start = [] if spec.bos_token is None else [spec.bos_token]
        self._parts = spec.fim[0].parts if spec.fim else PLAIN
        self._known_ids = lru_cache(most)(lambda text: tuple(tokenizer.encode(text)))
        self._splits = tokenizer.encode("".join(WORDS)) == [id_ for word in WORDS for id_ in tokenizer.encode(word)]

    def build(self, context: Context, max_new_tokens: int) -> Prompt:
        parts = self._parts if fills(context) else PLAIN
        prefix = for_model(context.prefix)
        lead = unfinished(prefix)
        token_ids = list(self._start)
        for part in parts:
            token_ids += self._part(part, prefix[: len(prefix) - len(lead)], context)
        token_ids = token_ids or self._tokenizer.encode("\n")  # the start of a file: a model needs something to follow
        return Prompt(tuple(token_ids), max_new_tokens, lead)

    def _part(self, part: str, shown: str, context: Context) -> Sequence[int]:
        if part == FimTemplate.PREFIX:
            return self._encoded(shown)
        if part == FimTemplate.SUFFIX:
            return self._known_ids(for_model(context.suffix))
        return self._tokenizer.encode(part, special=True)

    def _encoded(self, text: str) -> list[int]:
        """The tokens of `text`, piece by piece: all pieces but the last stay while one types, and no token crosses
        from one to the next. Tokenizers that split text do it before a word and its blank, and this one does."""
        return [*chain.from_iterable(map(self._known_ids, pieces(text) if self._splits else [text]))]


class Spellings:
    """The tokens below `vocab` that are not `hidden` in the order of their bytes, so that those which begin alike are
    found without a look at each. Takes a moment to build."""

    def __init__(self, tokenizer: Tokenizer, vocab: int, hidden: Collection[int]) -> None:
        self._spelled = tokenizer.spellings(vocab)
        shown = (token for token in range(vocab) if self._spelled[token] and token not in hidden)
        ordered = sorted(shown, key=self._spelled.__getitem__)
        self._bytes = [self._spelled[token] for token in ordered]
        self._ids = np.array(ordered, np.int32)

    def of(self, token_id: int) -> bytes:
        return self._spelled[token_id]

    def along(self, text: bytes) -> IntArray:
        """The tokens that `text`, of valid UTF-8 and not empty, begins with, and those that begin with it."""
        shorter = (self._from(text[:length], bisect_right) for length in range(1, len(text)))
        return np.concatenate([*shorter, self._from(text, _behind)])

    def _from(self, text: bytes, end: Callable[[list[bytes], bytes], int]) -> IntArray:
        return self._ids[bisect_left(self._bytes, text) : end(self._bytes, text)]


def _behind(ordered: list[bytes], start: bytes) -> int:
    """Where those that begin with `start` end. No byte of UTF-8 is the last one that there is."""
    return bisect_left(ordered, start[:-1] + bytes([start[-1] + 1]))


class Opening:
    """The tokens that spell `lead`: each goes on with it or goes beyond it."""

    def __init__(self, lead: bytes, spellings: Spellings) -> None:
        self.left = lead
        self._spellings = spellings

    @property
    def met(self) -> bool:
        return not self.left

    def allowed(self) -> IntArray:
        return self._spellings.along(self.left)

    def fits(self, token_ids: Sequence[int]) -> bool:
        spelled = b""
        for token in token_ids:
            if len(spelled) >= len(self.left):
                break
            spelled += self._spellings.of(token)
        return spelled.startswith(self.left) or self.left.startswith(spelled)

    def after(self, token_id: int) -> Opening:
        return Opening(self.left[len(self._spellings.of(token_id)) :], self._spellings) if self.left else self


def pieces(text: str) -> list[str]:
    """The text, cut at the first place before a word and its blank behind each multiple of `STEP`, if one is near."""
    found = (BEFORE_WORDS.search(text, at, at + STEP) for at in range(STEP, len(text), STEP))
    places = [place.end() for place in found if place]
    return [text[start:end] for start, end in pairwise((0, *places, len(text)))]


def unfinished(prefix: str) -> str:
    """The end of the cursor's line that may be part of a longer token: a blank, marks, letters, each if it is there.

    So tokenizers cut text before they look for tokens. Of 1,500 places in lines of code, 20 % are bounds of tokens as
    they are, and 99 % are with this left out.
    """
    found = UNFINISHED.search(prefix[-MOST_LEAD:])
    return found[0] if found else ""


def fills(context: Context) -> bool:
    """Whether enough stands behind the cursor to show it to the model: code on its line, or a few lines."""
    rest, *lines = for_model(context.suffix).split("\n")
    return bool(rest.strip()) or sum(bool(line.strip()) for line in lines) >= LEAST_SUFFIX


def for_model(text: str) -> str:
    """The text with \\n as its only line break, and nothing that has no UTF-8."""
    text = with_line_feeds(text)
    return text if text.isascii() else LONE_SURROGATES.sub("\ufffd", text)
