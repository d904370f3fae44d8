"""From documents of tokens to training sequences: as the target's prompts stand, with the text behind the cursor first,
or plain. Pure; knows nothing of networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ghostdraft.models.types import FimOrder, FimTemplate, IntArray, ModelSpec, Tokenizer

Offsets = npt.NDArray[np.int64]

MOST_SUFFIX = 128  # tokens
FIM_SHARE = 0.6  # of the sequences
GROWTH = 0.5  # a language with four times the tokens is drawn twice as often


@dataclass(frozen=True, slots=True)
class Documents:
    """One language's documents, one behind the other: number i is `tokens[offsets[i] : offsets[i + 1]]`."""

    tokens: IntArray
    offsets: Offsets

    def window(self, at: int, length: int) -> IntArray:
        """`length` tokens from the token `at` on, of one document where it is as long; shorter at the corpus's end."""
        first, end = self._document(at)
        start = min(at, max(first, end - length))
        return np.asarray(self.tokens[start : start + length])

    def holds(self, at: int, length: int) -> bool:
        """Whether the document in which the token `at` stands is as long."""
        first, end = self._document(at)
        return end - first >= length

    def _document(self, at: int) -> tuple[int, int]:
        number = int(np.searchsorted(self.offsets, at, side="right"))
        return int(self.offsets[number - 1]), int(self.offsets[number])


@dataclass(frozen=True, slots=True)
class Markers:
    """The tokens of a fill-in-the-middle prompt, suffix first: `before` suffix `between` prefix and middle."""

    before: tuple[int, ...]
    between: tuple[int, ...]


def markers_of(spec: ModelSpec, tokenizer: Tokenizer) -> Markers | None:
    """Of the model's template with the suffix first; None where it has none."""
    for template in spec.fim:
        if template.order is FimOrder.SUFFIX_FIRST:
            texts = (part for part in template.parts if part not in (FimTemplate.PREFIX, FimTemplate.SUFFIX))
            before, between = (tuple(tokenizer.encode(text, special=True)) for text in texts)
            return Markers(before, between)
    return None


class Sampler:
    """Draws sequences of `length` tokens, each with `start` before it. Batch number n is the same in every run with the
    same seed."""

    def __init__(
        self,
        documents: Mapping[str, Documents],
        markers: Markers | None,
        length: int,
        seed: int,
        start: Sequence[int] = (),
    ) -> None:
        sized = {name: one for name, one in sorted(documents.items()) if len(one.tokens) > length}
        if not sized:
            raise ValueError(f"no language has more than {length} tokens to train on")
        self.languages = tuple(sized)
        self._documents = tuple(sized.values())
        self._markers, self._length, self._seed = markers, length, seed
        self._start = np.asarray(start, np.int32)
        weights = np.array([len(one.tokens) for one in self._documents]) ** GROWTH
        self._shares = weights / weights.sum()

    def batch(self, number: int, count: int) -> IntArray:
        """[count, length]"""
        rng = np.random.default_rng((self._seed, number))
        picked = rng.choice(len(self._documents), size=count, p=self._shares)
        return np.stack([self._sequence(self._documents[i], rng) for i in picked])

    def _sequence(self, documents: Documents, rng: np.random.Generator) -> IntArray:
        at = int(rng.integers(len(documents.tokens) - self._length))
        window, turns, suffix = (
            documents.window(at, self._length),
            rng.random() < FIM_SHARE,
            int(rng.integers(MOST_SUFFIX)),
        )
        if self._markers and turns and documents.holds(at, self._length):
            window = turned(window, suffix, self._markers)
        return np.concatenate([self._start, window])[: self._length]


def turned(window: IntArray, suffix: int, markers: Markers) -> IntArray:
    """The window as a prompt of the same length, its last `suffix` tokens before all others; what finds no room is left
    out between the two."""
    text = len(window) - len(markers.before) - len(markers.between)
    suffix = min(suffix, text // 2)
    parts: Sequence[Sequence[int] | IntArray] = (
        markers.before, window[len(window) - suffix :], markers.between, window[: text - suffix]
    )  # fmt: skip
    return np.concatenate([np.asarray(part, np.int32) for part in parts])
