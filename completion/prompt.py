"""From a window of text to the tokens of a prompt, by the model's own fill-in-the-middle template.

Special tokens come from the template alone: one that stands in the user's text is plain text. Line breaks are \\n to
the model. Knows nothing of how text is chosen, nor of what becomes of the answer.

The text before the cursor seldom ends where a token does: after "    retu" no model says "rn". So the last word is left
out together with the marks and the blank before it, and the model has to begin with it (`Prompt.lead`, `Opening`):
token healing (Lundberg 2023). In a template that does not end with this text the middle begins that much earlier.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from ghostdraft.completion.types import Context, Prompt
from ghostdraft.models.types import FimTemplate, ModelSpec, Tokenizer

LINE_BREAKS = re.compile(r"\r\n?")
LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
LEAST_SUFFIX = 2  # lines that are not blank: less says too little
MOST_LEAD = 24  # code points
UNFINISHED = re.compile(r"[ \t]?(?:[^\w\s]|_)*[^\W\d_]*\Z")
PLAIN = (FimTemplate.PREFIX,)


class Prompter:
    """Builds the prompts of one model."""

    def __init__(self, spec: ModelSpec, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._start = [] if spec.bos_token is None else [spec.bos_token]
        self._parts = spec.fim[0].parts if spec.fim else PLAIN
        self._suffix_ids = lru_cache(maxsize=8)(lambda suffix: tuple(tokenizer.encode(suffix)))

    def build(self, context: Context, max_new_tokens: int) -> Prompt:
        parts = self._parts if fills(context) else PLAIN
        prefix = for_model(context.prefix)
        lead = unfinished(prefix)
        token_ids, stable = list(self._start), len(self._start)
        for part in parts:
            if part == FimTemplate.PREFIX:
                shown = prefix[: len(prefix) - len(lead)]
                ids = self._tokenizer.encode(shown)
                stable = len(token_ids) + self._stable(ids, shown)
            else:
                ids = self._fixed(part, context)
            token_ids += ids
        token_ids = token_ids or self._tokenizer.encode("\n")  # the start of a file: a model needs something to follow
        return Prompt(tuple(token_ids), max_new_tokens, stable, lead)

    def _fixed(self, part: str, context: Context) -> list[int]:
        if part == FimTemplate.SUFFIX:
            return list(self._suffix_ids(for_model(context.suffix)))
        return self._tokenizer.encode(part, special=True)

    def _stable(self, ids: list[int], prefix: str) -> int:
        """How many tokens lie before the cursor's line: the rest may change with the next key."""
        left = len(prefix[prefix.rfind("\n") + 1 :].encode())
        count = len(ids)
        while count and left > 0:
            count -= 1
            left -= len(self._tokenizer.decode_bytes([ids[count]]))
        return count


class Opening:
    """The tokens that spell `lead`: each goes on with it or goes beyond it."""

    def __init__(self, lead: str, tokenizer: Tokenizer, hidden: Collection[int]) -> None:
        self._left = lead.encode()
        self._tokenizer = tokenizer
        self._hidden = hidden

    @property
    def met(self) -> bool:
        return not self._left

    def allows(self, token_id: int) -> bool:
        spelled = b"" if token_id in self._hidden else self._tokenizer.decode_bytes([token_id])
        return bool(spelled) and (spelled.startswith(self._left) or self._left.startswith(spelled))

    def take(self, token_id: int) -> None:
        self._left = self._left[len(self._tokenizer.decode_bytes([token_id])) :]


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
    return LONE_SURROGATES.sub("\ufffd", LINE_BREAKS.sub("\n", text))
