"""The open buffers as blocks of tokens, for drafters that copy. Knows nothing of what is made of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from zlib import crc32

from ghostdraft.completion.prompt import for_model
from ghostdraft.completion.types import Snapshot
from ghostdraft.models.types import Tokenizer

REACH = 65_536  # code points of a buffer, around the cursor or from its start
LEAST_BLOCK, MOST_BLOCK = 256, 4096  # code points of a block, but for its last line
LINES = 16  # of a block behind the least, on average
MOST_BLOCKS = 1024  # remembered
MOST_NEW = 32_768  # code points tokenised for one request: the rest waits for the next one

Tokens = tuple[int, ...]


class Buffers:
    """Remembers the tokens of blocks by their text, so that an edit costs one block."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[str, Tokens] = OrderedDict()

    def tokens(self, snapshot: Snapshot) -> list[Tokens]:
        """The blocks of the snapshot's own text, then those of the other buffers of its language.

        The own text is cut at the cursor: what stands behind it would else be copied as what comes next.
        """
        text, cursor = snapshot.text, snapshot.cursor
        start = max(0, cursor - REACH // 2)
        texts = [text[start:cursor], text[cursor : start + REACH]]
        texts += [other.text[:REACH] for other in snapshot.others if other.language_id == snapshot.language_id]
        new = 0
        found = []
        for block in (block for text in texts for block in blocks(for_model(text))):
            new += 0 if block in self._known else len(block)
            if block not in self._known and new > MOST_NEW:
                continue
            found.append(self._encoded(block))
        return found

    def _encoded(self, block: str) -> Tokens:
        tokens = self._known.pop(block, None) or tuple(self._tokenizer.encode(block))
        self._known[block] = tokens
        if len(self._known) > MOST_BLOCKS:
            self._known.popitem(last=False)
        return tokens


def blocks(text: str) -> Iterator[str]:
    """Pieces of some lines each. A line begins one by what it says, wherever it stands, so that a line put in or
    taken out changes the piece around it and no other."""
    block: list[str] = []
    size = 0
    for line in text.split("\n"):
        if size >= MOST_BLOCK or (size >= LEAST_BLOCK and crc32(line.encode()) % LINES == 0):
            yield "\n".join(block) + "\n"
            block, size = [], 0
        block.append(line)
        size += len(line) + 1
    if size > 1:
        yield "\n".join(block)
