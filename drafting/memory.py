"""Where the last tokens stood before: in the open buffers, in what was taken back lately, in what is written.

All of it lies in one array, and one scan finds the places: of 65,536 tokens it takes 0.01 to 0.03 ms, and there is
nothing to keep in order but the array. Hash tables of the same tokens' n-grams took 48 ms to build, 22 MB, and to probe
them all longer than the scan. Knows nothing of what is made of places, nor of text: buffers come as tokens, best as
blocks of lines, so that an edit changes one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ghostdraft.models.types import IntArray

Positions = npt.NDArray[np.intp]  # [n] of tokens in the array

GAP = -1  # between texts: no token
BACK = 16  # tokens before a place that are compared
AHEAD = 16  # tokens behind it that may be copied
PLACES = 24  # at most
MOST_BUFFER_TOKENS = 65_536
MOST_TAKEN_BACK = 256  # tokens
CONTEXT = 8  # tokens before what was taken back, to find it by
ROOM = 256  # tokens of output, until the array has to grow

_BEFORE = np.arange(1, BACK + 1)
_BEHIND = np.arange(AHEAD)


class Source(IntEnum):
    """In the order of the array."""

    BUFFER = 0
    TAKEN_BACK = 1
    WRITTEN = 2  # the prompt and the output


_SOURCES = tuple(Source)


class Place(NamedTuple):
    """`likeness`, in tokens: the mean of how many of the last tokens stand before it too, and how many of the last
    `BACK` tokens stand that far before it: lines alike but for a word count. `line`: the tokens behind it."""

    source: Source
    likeness: float
    line: Sequence[int]


class Memory:
    """What is written comes last in the array, so that output is added at its end."""

    _tokens: IntArray
    _end: int  # of what is known; behind it is room
    _starts: tuple[int, int, int]  # of the sources

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, ...], IntArray] = {}
        self._buffers: Sequence[Sequence[int]] = ()  # that the blocks were made of
        self._buffered = self._taken_back = _array(())
        self._lay(_array(()))

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]]) -> None:
        """A new prompt. What was written and does not stand there any more was taken back."""
        prompt = _array(token_ids)
        self._take_back(prompt)
        if buffers is not self._buffers:
            self._buffers, self._buffered = buffers, self._laid_out(buffers)
        self._lay(prompt)

    def extend(self, token_ids: Sequence[int]) -> None:
        """More output."""
        end = self._end + len(token_ids)
        if end + AHEAD > len(self._tokens):
            self._tokens = np.concatenate((self._tokens, _gap(end + ROOM)))
        self._tokens[self._end : end] = token_ids
        self._end = end

    def places(self) -> list[Place]:
        """The likest first, of equals the latest; where there are more than `PLACES`, those with the longest match."""
        at = self._likest(self._all_places())
        likeness = self._likeness(at)
        order = np.lexsort((at, likeness))[::-1]
        at, likeness = at[order], likeness[order]
        sources = np.searchsorted(self._starts, at, "right") - 1
        rows = zip(sources.tolist(), likeness.tolist(), self._tokens[at[:, None] + _BEHIND].tolist(), strict=True)
        return [Place(_SOURCES[source], alike, _until_gap(line)) for source, alike, line in rows]

    def _all_places(self) -> Positions:
        """Where the last token stands before a token."""
        known = self._tokens[: self._end]
        at: Positions = np.flatnonzero(known[:-1] == known[-1]) + 1
        return at[known[at] >= 0]

    def _likest(self, at: Positions) -> Positions:
        """Those of `at` where the most tokens before are the last ones; of equals the latest."""
        size, longer = 1, at
        while len(longer) > PLACES and size < BACK:
            size, at = size + 1, longer
            longer = at[self._tokens[at - size] == self._tokens[self._end - size]]
        if len(longer) > PLACES:
            return longer[-PLACES:]
        others = np.setdiff1d(at, longer, assume_unique=True)
        return np.concatenate((others[max(0, len(others) + len(longer) - PLACES) :], longer))

    def _likeness(self, at: Positions) -> npt.NDArray[np.float64]:
        """[n], as `Place` has it; what stands before a gap is another text."""
        before, last = self._tokens[at[:, None] - _BEFORE], self._tokens[self._end - _BEFORE]
        within = np.logical_and.accumulate((before >= 0) & (last >= 0), axis=1)
        same = within & (before == last)
        exactly = np.where(same.all(1), BACK, same.argmin(1))
        likeness: npt.NDArray[np.float64] = (exactly + same.sum(1)) / 2
        return likeness

    def _take_back(self, prompt: IntArray) -> None:
        written = self._tokens[self._starts[Source.WRITTEN] : self._end]
        shared = _shared(written, prompt)
        if shared < len(written):
            taken = self._taken_back, _gap(1), written[max(0, shared - CONTEXT) :]
            self._taken_back = np.concatenate(taken)[-MOST_TAKEN_BACK:]

    def _laid_out(self, buffers: Sequence[Sequence[int]]) -> IntArray:
        """The blocks, the first one last. Only those that were not there before are made into arrays."""
        blocks: dict[tuple[int, ...], IntArray] = {}
        room = MOST_BUFFER_TOKENS
        for buffer in buffers:
            tokens = tuple(buffer[:room])
            room -= len(tokens)
            known = self._blocks.get(tokens)
            blocks[tokens] = _array((*tokens, GAP)) if known is None else known
        self._blocks = blocks
        return np.concatenate((_array(()), *reversed(blocks.values())))

    def _lay(self, prompt: IntArray) -> None:
        before = np.concatenate((_gap(BACK), self._buffered))
        above = np.concatenate((before, self._taken_back, _gap(1)))
        self._end = len(above) + len(prompt)
        self._starts = (0, len(before), len(above))
        self._tokens = np.concatenate((above, prompt, _gap(ROOM)))


def _array(token_ids: Sequence[int]) -> IntArray:
    return np.array(token_ids, np.int32)


def _gap(count: int) -> IntArray:
    return np.full(count, GAP, np.int32)


def _until_gap(line: list[int]) -> list[int]:
    return line[: line.index(GAP)] if GAP in line else line


def _shared(one: IntArray, other: IntArray) -> int:
    """How many tokens at the start are the same."""
    most = min(len(one), len(other))
    differs = one[:most] != other[:most]
    return int(differs.argmax()) if differs.any() else most
