"""Drafts copied from a datastore: many texts, of a whole workspace say, too many to be read as tokens.

What was written is spelled, and looked up as bytes. What follows at the places found is cut into tokens as far as it is
drafted, and remembered: while a draft is right, the same text goes on. Knows nothing of files.

Each token comes with its chance: how often what is copied goes on right behind so many bytes that are the same, those
of the draft included, times the share of the places that say so, too; a place counts the more, the more bytes before it
are the same (as contexts do in PPM, Cleary and Witten 1984).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from heapq import nlargest
from itertools import accumulate, islice

from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.datastore import REACH, Datastore, Place
from ghostdraft.drafting.draft_tree import DraftTree
from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Opening, Price, Verdict
from ghostdraft.models.types import FimTemplate, ModelSpec, Pass, Tokenizer

DRAFT_LENGTH = 16  # tokens
LINES = 4  # of a draft
MOST_VOTES = 16  # places that are heard, those with the most bytes the same
HEAD = 4  # bytes: texts that begin with the same ones are one line
AHEAD = 48  # bytes that are cut into tokens at once
LEAST_CUT = 8  # tokens: where fewer are known, the text is cut anew
MOST_CUT = 4096  # places whose tokens are remembered

# By the bytes that are the same, 4 to 7, 8 to 11 and so on: how often the next token is, too, where all places say so.
# Measured on 100 holes of the bench, each with its package without files that share text with it: output of a small
# model, and the bodies themselves.
CHANCES = (0.35, 0.45, 0.52, 0.6, 0.62, 0.66, 0.68, 0.7, 0.7, 0.72, 0.72, 0.74, 0.74, 0.76, 0.76, 0.78, 0.8, 0.82, 0.84)
STEP = 4  # bytes
DOUBLE = 6  # bytes more that are the same double a place's weight


@dataclass(frozen=True, slots=True)
class Vote:
    """What a place says: the bytes that follow, as a number whose lowest byte is the first; `same` before it."""

    place: Place
    same: int
    text: int

    @staticmethod
    def of(place: Place) -> Vote:
        return Vote(place, place.same, int.from_bytes(place.text(AHEAD), "little"))

    @property
    def weight(self) -> float:
        return math.exp2(self.same / DOUBLE)

    @property
    def head(self) -> int:
        return self.text & (1 << 8 * HEAD) - 1

    def agrees(self, other: Vote) -> int:
        """How many bytes both begin with."""
        different = self.text ^ other.text
        return ((different & -different).bit_length() - 1) // 8 if different else AHEAD


@dataclass(frozen=True, slots=True)
class Line:
    """Tokens, and how many bytes each of them has."""

    tokens: Sequence[int]
    sizes: Sequence[int]

    def behind(self, count: int) -> Line:
        return Line(self.tokens[count:], self.sizes[count:]) if count else self


NO_LINE = Line((), ())


class Cutter:
    """Cuts what follows at places into tokens, and remembers how."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._size = cache(lambda token: len(tokenizer.decode_bytes((token,))))
        self._known: dict[tuple[int, int], tuple[Line, int]] = {}  # and how many of its tokens stand before the place

    def line(self, place: Place) -> Line:
        """Empty where the place lies inside a character."""
        known, before = self._known.get((place.shelf.number, place.at), (NO_LINE, 0))
        if len(known.tokens) - before < LEAST_CUT:
            known, before = self._cut(place), 0
        return known.behind(before)

    def _cut(self, place: Place) -> Line:
        """The last token is left out where the text was cut: it might go on."""
        content = place.text(AHEAD)
        tokens = self._tokenizer.encode(_characters(content))
        tokens = tokens[:-1] if len(content) == AHEAD else tokens
        line = Line(tokens, [self._size(token) for token in tokens])
        if len(self._known) > MOST_CUT:
            self._known.clear()
        for before, at in enumerate(accumulate(line.sizes[:-1], initial=place.at)):
            self._known[place.shelf.number, at] = line, before
        return line


class CorpusDrafter:
    """Drafts for a model with this tokenizer and these prompts."""

    name = DrafterName.CORPUS.value

    def __init__(self, datastore: Datastore, tokenizer: Tokenizer, spec: ModelSpec) -> None:
        self._datastore = datastore
        self._tokenizer = tokenizer
        self._prefix_end = partial(prefix_end, _mark_behind(spec, tokenizer))
        self._cutter = Cutter(tokenizer)
        self._tail = b""

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:  # noqa: ARG002
        end = self._prefix_end(token_ids)
        self._tail = self._tokenizer.decode_bytes(token_ids[max(0, end - REACH) : end])[-REACH:]

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:
        votes = self._votes(opening.left)
        tree = DraftTree()
        for vote in islice(leaders(votes, max(price.token, DraftTree.LEAST)), LINES):
            line = self._cutter.line(vote.place)
            if line.tokens and opening.fits(line.tokens):
                tree.add(weighed(line, vote, votes, len(opening.left)))
        return tree.draft(min(max_tokens, DRAFT_LENGTH))

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        tokens = [*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token]
        self._tail = (self._tail + self._tokenizer.decode_bytes(tokens))[-REACH:]

    def reset(self) -> None:
        self._cutter = Cutter(self._tokenizer)

    def _votes(self, left: bytes) -> list[Vote]:
        """Of places where `left` follows what was written; where the most bytes are the same first."""
        places = self._datastore.places(self._tail + left)
        best = nlargest(MOST_VOTES, places, key=lambda place: place.same)
        return [Vote.of(place.before(len(left))) for place in best]


def leaders(votes: Sequence[Vote], least: float) -> Iterator[Vote]:
    """Of those that begin alike the first, where what it says has so much of a chance at `least`."""
    whole, alike = sum(vote.weight for vote in votes), dict[int, list[Vote]]()
    for vote in votes:
        alike.setdefault(vote.head, []).append(vote)
    for first, *others in alike.values():
        share = (first.weight + sum(vote.weight for vote in others)) / whole
        if share * chance(first.same) >= least:
            yield first


def chance(same: int) -> float:
    """That what all say is right, where so many bytes before are the same."""
    return CHANCES[min(same // STEP, len(CHANCES)) - 1]


def weighed(line: Line, vote: Vote, votes: Sequence[Vote], known: int) -> Iterator[tuple[int, float]]:
    """Each token with its chance, where `known` bytes at the start are certain."""
    agreeing = [(other.agrees(vote), other.weight) for other in votes]
    before, end = sum(weight for _, weight in agreeing), 0
    for token, size in zip(line.tokens, line.sizes, strict=True):
        same, end = vote.same + max(0, end - known), end + size
        after = sum(weight for agreed, weight in agreeing if agreed >= min(end, AHEAD))
        yield token, chance(same) * after / before
        before = after


def _characters(content: bytes) -> str:
    """None of text that begins inside a character; the last one may be cut off."""
    return "" if content[:1] and 0x80 <= content[0] < 0xC0 else content.decode(errors="ignore")


def _mark_behind(spec: ModelSpec, tokenizer: Tokenizer) -> int | None:
    """The token that parts the text before the cursor from the one behind it in this order; None where it is last."""
    parts = spec.fim[0].parts if spec.fim else (FimTemplate.PREFIX,)
    following = parts[parts.index(FimTemplate.PREFIX) + 1 :]
    return tokenizer.encode(following[0], special=True)[0] if following else None


def prefix_end(mark: int | None, token_ids: Sequence[int]) -> int:
    """How many tokens of a prompt stand before the place that is written at."""
    return token_ids.index(mark) if mark is not None and mark in token_ids else len(token_ids)
