"""The open buffers as blocks of tokens, for drafters that copy. Knows nothing of what is made of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from ghostdraft.completion.prompt import for_model
from ghostdraft.completion.types import Snapshot
from ghostdraft.models.types import Tokenizer

REACH = 65_536  # code points of a buffer, around the cursor or from its start
BLOCK = 1024  # code points of a block, about
MOST_BLOCKS = 512  # remembered
MOST_NEW = 48  # blocks tokenised for one request: the rest waits for the next one

Tokens = tuple[int, ...]


class Buffers:
    """Remembers the tokens of blocks by their text, so that an edit costs one block."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[str, Tokens] = OrderedDict()

    def tokens(self, snapshot: Snapshot) -> list[Tokens]:
        """The blocks of the snapshot's own text, then those of the other buffers of its language."""
        start = max(0, snapshot.cursor - REACH // 2)
        texts = [snapshot.text[start : start + REACH]]
        texts += [other.text[:REACH] for other in snapshot.others if other.language_id == snapshot.language_id]
        new = 0
        found = []
        for block in (block for text in texts for block in blocks(for_model(text))):
            if block not in self._known and (new := new + 1) > MOST_NEW:
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
    """Pieces of about `BLOCK` code points that begin at lines without indentation where there are any, so that a line
    put in does not move all pieces behind it."""
    block: list[str] = []
    size = 0
    for line in text.split("\n"):
        if size >= BLOCK and (line[:1].strip() or size >= 2 * BLOCK):
            yield "\n".join(block) + "\n"
            block, size = [], 0
        block.append(line)
        size += len(line) + 1
    if size > 1:
        yield "\n".join(block)
