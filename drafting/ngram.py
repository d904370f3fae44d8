"""Drafts copied from what was already written: the prompt, the tokens generated so far, the open buffers.

The last n tokens are looked up, longest n first; what followed them the last time is the draft (prompt lookup:
Saxena 2023; Yang et al. 2023, arXiv:2304.04487). A lookup is one hash probe per n and block, whatever its length.
Knows nothing of text: buffers come as tokens, best as blocks of lines, so that an edit changes one block only.

Each token comes with its chance. That the next copied token is right depends above all on how many before it are the
same here and there, those of the draft included; and a match in the prompt or the output is worth more than one in
a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.types import Pass

Gram = tuple[int, ...]

SIZES = (4, 3, 2, 1)
DRAFT_LENGTH = 16
MOST_BUFFER_TOKENS = 65_536

# By the number of tokens that are the same, 1 to 16 and more: how often the next one is, too. Measured on holes in
# the standard library, greedy output of two models.
CHANCES_WRITTEN = (0.24, 0.36, 0.5, 0.57, 0.68, 0.72, 0.78, 0.8, 0.82, 0.84, 0.86, 0.87, 0.88, 0.9, 0.9, 0.95)
CHANCES_BUFFER = (0.12, 0.2, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.85, 0.9, 0.9)


class Block:
    """Tokens that do not change, and where each of their n-grams was last followed by another token."""

    def __init__(self, token_ids: Sequence[int], sizes: Sequence[int]) -> None:
        self.tokens = token_ids
        self.follows: dict[Gram, int] = {}  # n-gram -> the position of what followed it last
        for n in sizes:
            grams = zip(*(token_ids[i:] for i in range(n)), strict=False)
            self.follows.update(zip(grams, range(n, len(token_ids)), strict=False))


class GrowingBlock:
    """The same for tokens that come and go at the end."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.tokens: list[int] = []
        self.follows: dict[Gram, int] = {}
        self._earlier: dict[int, list[int | None]] = {n: [] for n in sizes}  # what `follows` said before, by n

    def extend(self, token_ids: Sequence[int]) -> None:
        start = len(self.tokens)
        self.tokens.extend(token_ids)
        for n, earlier in self._earlier.items():
            for position in range(max(start, n), len(self.tokens)):
                gram = tuple(self.tokens[position - n : position])
                earlier.append(self.follows.get(gram))
                self.follows[gram] = position

    def truncate(self, length: int) -> None:
        """Forgets every token from `length` on, as if it had never been there."""
        for n, earlier in self._earlier.items():
            for position in range(len(self.tokens) - 1, max(length, n) - 1, -1):
                self._restore(tuple(self.tokens[position - n : position]), earlier.pop())
        del self.tokens[length:]

    def replace(self, token_ids: Sequence[int]) -> None:
        """Holds `token_ids` from now on; only what differs behind the common prefix is paid for."""
        shared = common_prefix(self.tokens, token_ids)
        self.truncate(shared)
        self.extend(token_ids[shared:])

    def _restore(self, gram: Gram, position: int | None) -> None:
        if position is None:
            del self.follows[gram]
        else:
            self.follows[gram] = position


class NgramDrafter:
    """Proposes lines. Of matches of one n the prompt and output win, then the blocks in the order they were given."""

    name = "ngram"

    def __init__(self, sizes: Sequence[int] = SIZES, draft_length: int = DRAFT_LENGTH) -> None:
        self._sizes = tuple(sorted(sizes, reverse=True))
        self._draft_length = draft_length
        self._written = GrowingBlock(self._sizes)
        self._blocks: dict[Gram, Block] = {}
        self._buffers: Sequence[Sequence[int]] = ()  # that the blocks were made of

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]]) -> None:
        self._written.replace(token_ids)
        if buffers is not self._buffers:
            self._buffers, self._blocks = buffers, self._indexed(buffers)

    def propose(self, max_tokens: int) -> Draft:
        match = self._longest_match()
        if match is None:
            return Draft()
        block, position = match
        tokens = block.tokens[position : position + min(max_tokens, self._draft_length)]
        table = CHANCES_WRITTEN if block is self._written else CHANCES_BUFFER
        same = _same_before(self._written.tokens, block.tokens, position, len(table))
        chances = (table[min(same + i, len(table)) - 1] for i in range(len(tokens)))
        return Draft.line(tokens, chances=tuple(accumulate(chances, mul)))

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._written.extend([*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token])

    def reset(self) -> None:
        self._written = GrowingBlock(self._sizes)
        self._buffers, self._blocks = (), {}

    def _indexed(self, buffers: Sequence[Sequence[int]]) -> dict[Gram, Block]:
        """Different blocks by their tokens, taken over where they were there before."""
        indexed: dict[Gram, Block] = {}
        room = MOST_BUFFER_TOKENS
        for buffer in buffers:
            tokens = tuple(buffer[:room])
            room -= len(tokens)
            indexed[tokens] = self._blocks.get(tokens) or Block(tokens, self._sizes)
        return indexed

    def _longest_match(self) -> tuple[Block | GrowingBlock, int] | None:
        """Where the last n written tokens stood before, and the position of what followed them there."""
        blocks: list[Block | GrowingBlock] = [self._written, *self._blocks.values()]
        for n in self._sizes:
            gram = tuple(self._written.tokens[-n:])
            for block in blocks:
                if position := block.follows.get(gram):  # never 0: the gram stands before it
                    return block, position
        return None


def _same_before(written: Sequence[int], tokens: Sequence[int], position: int, most: int) -> int:
    """How many tokens at the end of `written` stand right before `position` too."""
    pairs = zip(reversed(written), reversed(tokens[max(0, position - most) : position]), strict=False)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), min(most, position, len(written)))


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens at the start are the same; by bisection, since comparing many at once is quick."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if tuple(one[least:middle]) == tuple(other[least:middle]):
            least = middle
        else:
            most = middle - 1
    return least
