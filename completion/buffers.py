"""The open buffers as blocks of tokens, for drafters that copy. Knows nothing of what is made of them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

from ghostdraft.completion.prompt import for_model
from ghostdraft.completion.types import Snapshot
from ghostdraft.models.types import Tokenizer

REACH = 65_536  # code points of a buffer, around the cursor or from its start
LEAST_BLOCK, MOST_BLOCK = 256, 4096  # code points of a block, but for its last line, which has at most as many
LINE = re.compile(rf".{{1,{MOST_BLOCK}}}\n?|\n")  # with its line break; a longer one is cut
LINES = 16  # of a block behind the least, on average
MOST_OTHERS = 3 * REACH  # code points of other buffers: drafters take no more
MOST_KNOWN = 2 * (REACH + MOST_OTHERS)  # code points of the blocks that are remembered
MOST_NEW = 32_768  # code points tokenised for one request: the rest waits for the next one

MOST_TYPED = 256  # code points at the cursor, until the own text is cut anew

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the blocks were made of: the own text from `start` to the cursor and from there on, and the others."""

    start: int
    before: str
    behind: str
    others: tuple[str, ...]

    @staticmethod
    def of(snapshot: Snapshot) -> Seen:
        start = max(0, snapshot.cursor - REACH // 2)
        before, behind = snapshot.text[start : snapshot.cursor], snapshot.text[snapshot.cursor : start + REACH]
        return Seen(start, before, behind, _others(snapshot))

    @property
    def texts(self) -> Iterator[str]:
        return iter((self.before, self.behind, *self.others))

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether nothing was done since but to type a little at the cursor: that stands in the prompt."""
        typed = snapshot.cursor - self.start - len(self.before)
        return (
            0 <= typed <= MOST_TYPED
            and snapshot.text.startswith(self.before, self.start)
            and snapshot.text.startswith(self.behind, snapshot.cursor)
            and self.others == _others(snapshot)
        )


class Buffers:
    """Remembers the tokens of blocks by their text, so that an edit costs one block."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[str, Tokens] = OrderedDict()
        self._size = 0  # code points of these
        self._seen: Seen | None = None  # None: some blocks wait
        self._found: tuple[Tokens, ...] = ()

    @property
    def waiting(self) -> bool:
        """Whether some blocks were too many for the last request."""
        return self._seen is None

    def tokens(self, snapshot: Snapshot) -> tuple[Tokens, ...]:
        """The blocks of the snapshot's own text, then those of the other buffers of its language; while one types, the
        very same ones.

        The own text is cut at the cursor: what stands behind it would else be copied as what comes next.
        """
        if self._seen is None or not self._seen.holds(snapshot):
            seen = Seen.of(snapshot)
            whole = [block for text in seen.texts for block in blocks(for_model(text))]
            now = self._affordable(whole)
            self._found = tuple(map(self._encoded, now))
            self._seen = seen if len(now) == len(whole) else None
        return self._found

    def _affordable(self, whole: Sequence[str]) -> list[str]:
        """Those that are known, and of the others as many as may be tokenised for one request."""
        new = accumulate(0 if block in self._known else len(block) for block in whole)
        return [block for block, spent in zip(whole, new, strict=True) if block in self._known or spent <= MOST_NEW]

    def _encoded(self, block: str) -> Tokens:
        if block in self._known:
            self._known.move_to_end(block)
        else:
            self._known[block] = tuple(self._tokenizer.encode(block))
            self._size += len(block)
            self._forget()
        return self._known[block]

    def _forget(self) -> None:
        """What is too much, the least recent first."""
        while self._size > MOST_KNOWN:
            block, _ = self._known.popitem(last=False)
            self._size -= len(block)


def _others(snapshot: Snapshot) -> tuple[str, ...]:
    """The starts of the other buffers of the snapshot's language."""
    texts = (other.text[:REACH] for other in snapshot.others if other.language_id == snapshot.language_id)
    return tuple(_within(MOST_OTHERS, texts))


def _within(room: int, texts: Iterable[str]) -> Iterator[str]:
    """The texts up to so many code points in all."""
    for text in texts:
        if room <= 0:
            return
        yield text[:room]
        room -= len(text)


def blocks(text: str) -> Iterator[str]:
    """Pieces of some lines each. A line begins one by what it says, wherever it stands, so that a line put in or
    taken out changes the piece around it and no other."""
    block, size = list[str](), 0
    for line in LINE.findall(text):
        if size >= MOST_BLOCK or (size >= LEAST_BLOCK and crc32(line.rstrip("\n").encode()) % LINES == 0):
            yield "".join(block)
            block, size = [], 0
        block.append(line)
        size += len(line)
    if block:
        yield "".join(block)
