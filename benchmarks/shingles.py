"""Runs of fifty tokens, hashed: what tells that two files hold the same text.

A token here is a word or a single mark, whatever tokenizer a model has; blanks count for nothing. Knows nothing of
files or languages.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

LENGTH = 50  # tokens of a shingle

Hashes = NDArray[np.uint64]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that powers of it lose nothing modulo 2**64
_SHIFT, _MIX = np.uint64(32), np.uint64(0xD6E8FEB86659FD93)


def shingles(text: str) -> Hashes:
    """One hash for each run of LENGTH tokens, in their order; of a shorter text one for the whole, if it has any."""
    tokens = _tokens(text)
    width = min(LENGTH, len(tokens))
    runs = np.zeros(len(tokens) - width + 1 if width else 0, np.uint64)
    for offset in range(width):
        runs = runs * _BASE + tokens[offset : offset + len(runs)]
    return (runs ^ (runs >> _SHIFT)) * _MIX


def _tokens(text: str) -> Hashes:
    """[tokens] Their checksums, with the length above them."""
    words = [word.encode("utf-8", "replace") for word in _TOKEN.findall(text)]
    return np.array([len(word) << 32 | zlib.crc32(word) for word in words], np.uint64)


class Shelf:
    """All shingles of some texts, to be asked whether another text shares one."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._sorted = np.sort(np.concatenate([np.zeros(0, np.uint64), *map(shingles, texts)]))

    def shares_with(self, found: Hashes) -> bool:
        if not len(self._sorted):
            return False
        wanted = np.sort(found)  # neighbours are looked for where the last one was
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return bool((self._sorted[at] == wanted).any())


class Seen:
    """The shingles of the texts that were kept so far."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()

    def share(self, found: Hashes) -> float:
        """How much of a text, 0 to 1, stands in texts that were kept."""
        hashes = found.tolist()
        return sum(map(self._hashes.__contains__, hashes)) / max(1, len(hashes))

    def keep(self, found: Hashes) -> None:
        self._hashes.update(found.tolist())
