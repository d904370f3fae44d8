"""Drafts copied from what was already written: the prompt, the tokens generated so far, the open buffers.

The last n tokens are looked up, longest n first; what followed them the last times are lines of the draft, a tree
(prompt lookup: Saxena 2023; Yang et al. 2023, arXiv:2304.04487). A lookup is one hash probe per n and block, whatever
its length. Knows nothing of text: buffers come as tokens, best as blocks of lines, so that an edit changes one block
only.

Each token comes with its chance. That the next copied token is right depends above all on how many before it are the
same here and there, those of the draft included; then on whether other matches as long say the same; and a match in the
prompt or the output is worth more than one in a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.draft_tree import DraftTree
from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Opening, Price, Verdict
from ghostdraft.models.types import Pass

Gram = tuple[int, ...]

SIZES = (4, 3, 2, 1)
DRAFT_LENGTH = 16
MOST_BUFFER_TOKENS = 65_536
MATCHES = 4
LATEST = 3  # matches of one n in what was written
MOST_PLACES = 64  # that are looked at for them

# By the number of tokens that are the same, 1 to 16 and more: how often the next one is, too. Measured on 60 holes of
# the bench, greedy output of a small model; so are the two numbers behind them.
CHANCES_WRITTEN = (0.35, 0.5, 0.57, 0.68, 0.7, 0.77, 0.82, 0.85, 0.88, 0.89, 0.9, 0.9, 0.92, 0.93, 0.94, 0.95)
CHANCES_BUFFER = (0.13, 0.3, 0.36, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.85, 0.85, 0.9, 0.9)
DISPUTED = 0.6  # of its chance has a token where another match as long says something else
LATER = 0.5  # of its chance has a match that others come before, even where those are wrong


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

    def places(self, gram: Gram) -> Iterator[int]:
        """The positions of what followed the gram, the latest first."""
        position = self.follows.get(gram)
        while position is not None:
            yield position
            position = self._earlier[len(gram)][position - len(gram)]

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


@dataclass(frozen=True, slots=True)
class Match:
    """`tokens` followed the last `size` tokens, and `same` tokens in all, at another place: in what was `written`, or
    in a buffer."""

    size: int
    same: int
    tokens: Sequence[int]
    written: bool

    def line(self, others: Sequence[Match], weight: float, opening: Opening) -> Iterator[tuple[int, float]]:
        """Each token with its chance, where `others` are known; the first one's counts `weight` times. A token that
        `opening` restricts, and that fits, is wrong half as often."""
        table = CHANCES_WRITTEN if self.written else CHANCES_BUFFER
        disputed = {common_prefix(self.tokens, other.tokens) for other in others if other.size >= self.size}
        for depth, token in enumerate(self.tokens):
            chance = table[min(self.same + depth, len(table)) - 1]
            fitting = chance if opening.met else (1 + chance) / 2
            yield token, fitting * weight * (DISPUTED if depth in disputed else 1.0)
            weight, opening = 1.0, opening.after(token)


class NgramDrafter:
    """Of matches of one n the prompt and output win, then the blocks in the order they were given."""

    name = DrafterName.NGRAM.value

    def __init__(self, sizes: Sequence[int] = SIZES, draft_length: int = DRAFT_LENGTH) -> None:
        self._sizes = tuple(sorted(sizes, reverse=True))
        self._draft_length = draft_length
        self._written = GrowingBlock(self._sizes)
        self._blocks: dict[Gram, Block] = {}
        self._buffers: Sequence[Sequence[int]] = ()  # that the blocks were made of

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:  # noqa: ARG002
        self._written.replace(token_ids)
        if buffers is not self._buffers:
            self._buffers, self._blocks = buffers, self._indexed(buffers)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:  # noqa: ARG002
        matches = list(islice(self._matches(opening), MATCHES))
        tree = DraftTree()
        for i, match in enumerate(matches):
            others = matches[:i] + matches[i + 1 :]
            tree.add(match.line(others, LATER if i else 1.0, opening))
        return tree.draft(min(max_tokens, self._draft_length))

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

    def _matches(self, opening: Opening) -> Iterator[Match]:
        """Where the last n written tokens stood before, and what fits `opening` behind them; the longest n first."""
        begins = cache(lambda token: opening.fits((token,)))  # many places go on alike

        def fits(block: Block | GrowingBlock, place: int) -> bool:
            tokens = block.tokens
            return begins(tokens[place]) and opening.fits(tokens[place : place + self._draft_length])

        for n in self._sizes:
            gram = tuple(self._written.tokens[-n:])
            places = islice(self._written.places(gram), MOST_PLACES)
            written = (self._match(n, self._written, place) for place in places if fits(self._written, place))
            yield from islice(written, LATEST)
            for block in self._blocks.values():
                place = block.follows.get(gram)
                if place and fits(block, place):  # never 0: the gram stands before it
                    yield self._match(n, block, place)

    def _match(self, n: int, block: Block | GrowingBlock, place: int) -> Match:
        same = _same_before(self._written.tokens, block.tokens, place, len(CHANCES_WRITTEN))
        return Match(n, same, block.tokens[place : place + self._draft_length], block is self._written)


def _same_before(written: Sequence[int], tokens: Sequence[int], position: int, most: int) -> int:
    """How many tokens at the end of `written` stand right before `position` too."""
    pairs = zip(reversed(written), reversed(tokens[max(0, position - most) : position]), strict=False)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), min(most, position, len(written)))
