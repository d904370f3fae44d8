"""Drafts copied from what was already written: the prompt, the tokens generated so far, the open buffers.

The last n tokens are looked up, longest n first; what followed them the last time is the draft (prompt lookup:
Saxena 2023; Yang et al. 2023, arXiv:2304.04487). A lookup is one hash probe per n and sequence, whatever its length.
Knows nothing of text: buffers come as tokens, best as blocks of lines, so that an edit changes one block only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.types import Pass

Gram = tuple[int, ...]

SIZES = (4, 3, 2)
DRAFT_LENGTH = 7
MOST_BUFFER_TOKENS = 65_536


class NgramIndex:
    """One sequence of tokens, and where each of its n-grams was last followed by another token."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.tokens: list[int] = []
        self._sizes = tuple(sizes)
        self._follows: dict[Gram, int] = {}  # n-gram -> the position of what followed it last
        self._earlier: list[tuple[int | None, ...]] = []  # per position and n: what `_follows` said before it

    def extend(self, token_ids: Sequence[int]) -> None:
        self.tokens.extend(token_ids)
        for position in range(len(self._earlier), len(self.tokens)):
            grams = self._grams_before(position)
            self._earlier.append(tuple(self._follows.get(gram) for gram in grams))
            self._follows.update(dict.fromkeys(grams, position))

    def truncate(self, length: int) -> None:
        """Forgets every token from `length` on, as if it had never been there."""
        for position in range(len(self.tokens) - 1, length - 1, -1):
            for gram, earlier in zip(self._grams_before(position), self._earlier.pop(), strict=True):
                if earlier is None:
                    del self._follows[gram]
                else:
                    self._follows[gram] = earlier
        del self.tokens[length:]

    def replace(self, token_ids: Sequence[int]) -> None:
        """Holds `token_ids` from now on; only what differs behind the common prefix is paid for."""
        shared = common_prefix(self.tokens, token_ids)
        self.truncate(shared)
        self.extend(token_ids[shared:])

    def continuation(self, gram: Gram, length: int) -> list[int]:
        """The `length` tokens that followed `gram` the last time, or fewer; none where it was never followed."""
        position = self._follows.get(gram)
        return [] if position is None else self.tokens[position : position + length]

    def _grams_before(self, position: int) -> list[Gram]:
        return [tuple(self.tokens[position - n : position]) for n in self._sizes if n <= position]


class NgramDrafter:
    """Proposes lines. Of matches of one n the prompt and output win, then the buffers in the order they were given."""

    name = "ngram"

    def __init__(self, sizes: Sequence[int] = SIZES, draft_length: int = DRAFT_LENGTH) -> None:
        self._sizes = tuple(sorted(sizes, reverse=True))
        self._draft_length = draft_length
        self._written = NgramIndex(self._sizes)
        self._buffers: dict[Gram, NgramIndex] = {}

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]]) -> None:
        self._written.replace(token_ids)
        self._buffers = self._indexed(buffers)

    def propose(self, max_tokens: int) -> Draft:
        length = min(max_tokens, self._draft_length)
        return Draft.line(self._continuation(length)) if length > 0 else Draft()

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._written.extend([*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token])

    def reset(self) -> None:
        self._written = NgramIndex(self._sizes)
        self._buffers = {}

    def _indexed(self, buffers: Sequence[Sequence[int]]) -> dict[Gram, NgramIndex]:
        """One index per different block, taken over where the block was there before."""
        indexed: dict[Gram, NgramIndex] = {}
        room = MOST_BUFFER_TOKENS
        for buffer in buffers:
            block = tuple(buffer[:room])
            room -= len(block)
            indexed[block] = self._buffers.get(block) or self._index(block)
        return indexed

    def _index(self, block: Gram) -> NgramIndex:
        index = NgramIndex(self._sizes)
        index.extend(block)
        return index

    def _continuation(self, length: int) -> list[int]:
        written = self._written.tokens
        for n in self._sizes:
            if n > len(written):
                continue
            gram = tuple(written[-n:])
            for index in (self._written, *self._buffers.values()):
                if found := index.continuation(gram, length):
                    return found
        return []


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens at the start are the same."""
    shared = min(len(one), len(other))
    return next((i for i in range(shared) if one[i] != other[i]), shared)
