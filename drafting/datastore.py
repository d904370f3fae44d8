"""Many texts, in which the places are found where the last bytes that were written stand, too. Knows bytes only:
nothing of tokens, files or languages.

Each word's first letter is an anchor: the bytes that end with it, hashed, say in which bucket its position lies. A
lookup takes the last anchors of what was written, looks into their buckets, and compares texts: what it finds is right
whatever the tables say. So one thread may look up while another one changes something. Datastores to draft from: REST
(He et al. 2023, arXiv:2311.08252), which sorts suffixes of tokens; buckets of bytes are built some fifty times as fast,
text by text, and texts are taken out again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Positions = NDArray[np.uint32]

SHELF = 8 << 20  # bytes of text
MOST_SHELVES = 6  # 48 MiB of text; with one more while texts are moved, and all tables, 98 MiB
WAYS = 8  # positions of a bucket
SHORT, SHORT_BITS = 6, 17  # bytes that an anchor's hash is of; buckets of a shelf, as a power of two
LONG, LONG_BITS = 24, 16  # the same for anchors of long contexts, which others would else crowd out
SAMPLED = 1 << 20  # the bit of the short hash that an anchor has to have to be one of these
REACH = 64  # bytes before a place that are compared

LETTER = np.array([bytes([byte]).isalnum() or byte == ord("_") or byte >= 0x80 for byte in range(256)])
FIRST_LETTER = re.compile(rb"(?<![\w\x80-\xff])[\w\x80-\xff]")
MULTIPLIER, WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1  # Knuth's multiplicative hashing, of 64 bits


class Table:
    """Positions by buckets of `WAYS`; 0 is none. In a full bucket a new one takes the least one's place."""

    def __init__(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._rows = np.zeros((1 << bits, WAYS), np.uint32)

    def at(self, hashed: int) -> list[int]:
        positions: list[int] = self._rows[hashed >> int(self._shift)].tolist()
        return positions

    def add(self, hashes: Hashes, positions: Positions) -> None:
        """Of [n] hashes those of [n] positions, which ascend and are greater than all before."""
        buckets = (hashes >> self._shift).astype(np.int64)
        order = np.argsort(buckets, kind="stable")
        ranks = _ranks(buckets[order])
        for rank in range(min(WAYS, int(ranks.max(initial=-1)) + 1)):
            now = order[ranks == rank]
            self._rows[buckets[now], self._rows[buckets[now]].argmin(axis=1)] = positions[now]

    def drop(self, hashes: Hashes, start: int, end: int) -> None:
        """Those in [start, end), whose [n] hashes these are."""
        buckets = hashes >> self._shift
        rows = self._rows[buckets]
        rows[(rows >= start) & (rows < end)] = 0
        self._rows[buckets] = rows


@dataclass(frozen=True, slots=True)
class Anchors:
    """[n] positions behind first letters, and the hashes of what stands before them; of the `sampled` ones, by index,
    those of longer contexts, too."""

    positions: Positions
    short: Hashes
    sampled: NDArray[np.int64]
    long: Hashes


@dataclass(frozen=True, slots=True)
class Text:
    """The bytes [start, end) of a shelf."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Anchor:
    """Of what was written: where the context ends, its size, and its hash."""

    end: int
    size: int
    hashed: int


class Shelf:
    """Texts one behind the other. A text that is taken out leaves a gap, which nobody fills."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.texts: dict[str, Text] = {}  # by key, those that were not taken out
        self.room = SHELF
        self.held = 0  # bytes of these
        self._text = bytearray(REACH + SHELF)  # nothing stands before the first
        self._letters = np.frombuffer(self._text, np.uint8)
        self._words = np.ndarray((len(self._text) - 7,), "<u8", self._text, strides=(1,))  # 8 bytes from each on
        self._short, self._long = Table(SHORT_BITS), Table(LONG_BITS)
        self._order: list[Text] = []  # all, as they stand

    @property
    def gaps(self) -> int:
        """Bytes, those between texts among them."""
        return SHELF - self.room - self.held

    def put(self, key: str, content: bytes) -> None:
        """There has to be `room` for it, with one byte more, which parts it from the next one."""
        start = len(self._text) - self.room
        text = Text(key, start, start + len(content))
        self._text[text.start : text.end] = content
        self.room -= len(content) + 1
        self.held += len(content)
        self._order.append(text)
        self.texts[key] = text
        anchors = self._anchors(text)
        self._short.add(anchors.short, anchors.positions)
        self._long.add(anchors.long, anchors.positions[anchors.sampled])

    def remove(self, key: str) -> None:
        text = self.texts.pop(key)
        self.held -= text.end - text.start
        anchors = self._anchors(text)
        self._short.drop(anchors.short, text.start, text.end + 1)
        self._long.drop(anchors.long, text.start, text.end + 1)

    def read(self, start: int, end: int) -> bytes:
        return bytes(self._text[start:end])

    def key_of(self, position: int) -> str | None:
        """Of the text that it lies in, or right behind; None where that was taken out."""
        text = self._order[bisect_right(self._order, position, key=lambda text: text.start) - 1]
        return text.key if self.texts.get(text.key) is text else None

    def behind(self, tail: bytes, anchor: Anchor) -> Iterator[int]:
        """The positions behind the places where `tail` stands from the anchor's context on."""
        wanted = tail[anchor.end - anchor.size :]
        table = self._short if anchor.size == SHORT else self._long
        for position in table.at(anchor.hashed):
            start = position - anchor.size
            if position and self._text[start : start + len(wanted)] == wanted:
                yield start + len(wanted)

    def _anchors(self, text: Text) -> Anchors:
        letter = LETTER[self._letters[text.start - 1 : text.end]]
        at = np.flatnonzero(letter[1:] > letter[:-1]) + text.start + 1
        last = self._words[at - 8]
        short = (last >> np.uint64(64 - 8 * SHORT)) * np.uint64(MULTIPLIER)
        sampled = np.flatnonzero(short & np.uint64(SAMPLED))
        before = at[sampled]
        long = _long_hash(self._words[before - 24], self._words[before - 16], last[sampled])
        return Anchors(at.astype(np.uint32), short, sampled, long)


@dataclass(frozen=True, slots=True)
class Place:
    """Behind the position `at` of a shelf's text stands what may come next: `same` bytes before it, at least, are the
    last ones written."""

    shelf: Shelf
    at: int
    same: int

    def text(self, most: int) -> bytes:
        """What follows, at most so many bytes of it."""
        return self.shelf.read(self.at, self.at + most).partition(b"\0")[0]

    def before(self, count: int) -> Place:
        """The place so many bytes earlier, for which the bytes up to this one are as good as the same."""
        return Place(self.shelf, self.at - count, self.same) if count else self


class Datastore:
    """Texts by keys, at most `most_shelves` full shelves of them. May be changed by one thread at a time."""

    def __init__(self, most_shelves: int = MOST_SHELVES) -> None:
        self._most_shelves = most_shelves
        self._shelves: list[Shelf] = []
        self._on: dict[str, Shelf] = {}  # by key
        self._numbers = count()
        self._excluded: frozenset[str] = frozenset()

    @property
    def held(self) -> int:
        """Bytes of all texts."""
        return sum(shelf.held for shelf in self._shelves)

    def keys(self) -> Collection[str]:
        return self._on.keys()

    def get(self, key: str) -> bytes | None:
        shelf = self._on.get(key)
        if shelf is None:
            return None
        text = shelf.texts[key]
        return shelf.read(text.start, text.end)

    def put(self, key: str, text: bytes) -> bool:
        """In place of what had this key; whether there was room for it. NUL bytes part it in pieces."""
        self.remove(key)
        self._tidy_up()
        return self._put(key, text, self._most_shelves)

    def remove(self, key: str) -> None:
        """What has this key, if anything does."""
        shelf = self._on.pop(key, None)
        if shelf is not None:
            shelf.remove(key)

    def exclude(self, keys: Collection[str]) -> None:
        """From now on nothing is found in these texts, and in all others."""
        self._excluded = frozenset(keys)

    def places(self, tail: bytes) -> list[Place]:
        """Where the end of `tail` stands, too, in no particular order: of many places the last ones put in."""
        tail = tail[-REACH:]
        anchors = list(anchors_of(tail))
        found = {
            (shelf, at): None for shelf in self._shelves for anchor in anchors for at in shelf.behind(tail, anchor)
        }
        before = int.from_bytes(tail, "little")
        return [
            Place(shelf, at, _same(before, shelf.read(at - len(tail), at), len(tail)))
            for shelf, at in found
            if self._may(shelf, at)
        ]

    def _may(self, shelf: Shelf, at: int) -> bool:
        key = shelf.key_of(at)
        return key is not None and key not in self._excluded

    def _put(self, key: str, text: bytes, most_shelves: int) -> bool:
        if len(text) >= SHELF:
            return False
        if not self._shelves or self._shelves[-1].room <= len(text):
            if len(self._shelves) >= most_shelves:
                return False
            self._shelves = [*self._shelves, Shelf(next(self._numbers))]
        self._shelves[-1].put(key, text)
        self._on[key] = self._shelves[-1]
        return True

    def _tidy_up(self) -> None:
        """Moves one text from a shelf that is more gaps than text: with one at each change that suffices."""
        for shelf in self._shelves:
            if not shelf.texts:
                self._shelves = [other for other in self._shelves if other is not shelf]
            elif shelf.gaps > shelf.held and shelf is not self._shelves[-1]:
                key, text = next(iter(shelf.texts.items()))
                content = shelf.read(text.start, text.end)
                self.remove(key)
                self._put(key, content, self._most_shelves + 1)
                return


def anchors_of(tail: bytes) -> Iterator[Anchor]:
    """The last one in `tail`, and the last one of a long context, as far as there are such."""
    ends = [first.end() for first in FIRST_LETTER.finditer(tail) if first.end() >= SHORT]
    for end in ends[-1:]:
        yield Anchor(end, SHORT, _hash(tail[end - SHORT : end]))
    for end in reversed(ends):
        if end >= LONG and _hash(tail[end - SHORT : end]) & SAMPLED:
            first, second, last = (np.frombuffer(tail[at : at + 8], "<u8") for at in range(end - LONG, end, 8))
            yield Anchor(end, LONG, int(_long_hash(first, second, last)[0]))
            return


def _hash(word: bytes) -> int:
    return int.from_bytes(word, "little") * MULTIPLIER & WORD


def _long_hash(first: Hashes, second: Hashes, last: Hashes) -> Hashes:
    """[n] Of 24 bytes each, as words of 8."""
    factor = np.uint64(MULTIPLIER)
    return ((first * factor ^ second) * factor ^ last) * factor


def _ranks(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n] How many of the same stand after each: the last one of a run is 0."""
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    sizes = np.diff(ends, prepend=-1)
    return np.repeat(ends, sizes) - np.arange(len(ordered))


def _same(tail: int, other: bytes, most: int) -> int:
    """How many bytes at the end of both are the same; `tail` as a number whose highest byte is its last."""
    different = tail ^ int.from_bytes(other, "little")
    return most - (different.bit_length() + 7) // 8
