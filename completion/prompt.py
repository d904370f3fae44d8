"""From a window of text to the tokens of a prompt, by the model's own fill-in-the-middle template.

Special tokens come from the template alone: one that stands in the user's text is plain text. Line breaks are \\n to
the model. Knows nothing of how text is chosen, nor of what becomes of the answer.

Where the prompt ends with the text before the cursor, its last token decides what may follow: code models write a
word together with the blank before it, so a prompt that ends in a blank is one they have hardly seen. That blank is
left out, and the model has to begin with it (`Prompt.lead`); where it does not, the prompt is built again with it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ghostdraft.completion.types import Context, Prompt
from ghostdraft.models.types import FimTemplate, ModelSpec, Tokenizer

LINE_BREAKS = re.compile(r"\r\n?")
LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
LEAST_SUFFIX = 4  # lines that are not blank: with fewer behind the cursor, models do better without
PLAIN = (FimTemplate.PREFIX,)


class Prompter:
    """Builds the prompts of one model."""

    def __init__(self, spec: ModelSpec, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._start = [] if spec.bos_token is None else [spec.bos_token]
        self._parts = spec.fim[0].parts if spec.fim else PLAIN
        self._suffix_ids = lru_cache(maxsize=8)(lambda suffix: tuple(tokenizer.encode(suffix)))

    def build(self, context: Context, max_new_tokens: int, healed: bool = True) -> Prompt:
        """`healed`: a blank at the end of the prompt is left to the model, where the prompt ends at the cursor."""
        parts = self._parts if fills(context) else PLAIN
        prefix = for_model(context.prefix)
        lead = prefix[-1:] if healed and parts[-1] == FimTemplate.PREFIX and prefix[-1:] in (" ", "\t") else ""
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


def fills(context: Context) -> bool:
    """Whether enough stands behind the cursor to show it to the model: code on its line, or a few lines."""
    rest, *lines = for_model(context.suffix).split("\n")
    return bool(rest.strip()) or sum(bool(line.strip()) for line in lines) >= LEAST_SUFFIX


def for_model(text: str) -> str:
    """The text with \\n as its only line break, and nothing that has no UTF-8."""
    return LONE_SURROGATES.sub("\ufffd", LINE_BREAKS.sub("\n", text))
