"""A draft out of places where the last tokens stood before: each votes for what stands behind it. Knows no model.

A vote is the odds that the place is right, were there no other:

    odds = ODDS[source] * likeness / rank

with `rank` 1 for the likest of its source that still agrees with the draft so far. Each token of the draft adds 1 to
their likeness. A token's chance is its votes' share of all votes and 1, which stands for what no place says.

The odds are those that made decoding fastest, and not the truest ones: first tokens that many places dispute are as
likely as said, long copies twice as likely. Where those get their due, drafts grow longer, and decoding is slower by
2 to 4 %: the next draft would have gone on with the copy, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ghostdraft.drafting.memory import Place, Source
from ghostdraft.drafting.types import Draft

# By source. Fitted to greedy output of a small model at holes of the bench, and as their first lines are typed.
ODDS = (0.07, 0.33, 0.16)

Places = Sequence[Place]
ROOT = -1


@dataclass(order=True, slots=True)
class Node:
    """A token that may be drafted; the likeliest is the least. `places` say it at the depth `depth`."""

    unlikeliness: float  # its chance, with all tokens on the path, times -1
    number: int
    token: int = field(compare=False)
    parent: int = field(compare=False)
    depth: int = field(compare=False)
    places: Places = field(compare=False)


class Votes:
    """Grows a draft from its root, the likeliest token first, each of which brings up those that may follow it."""

    def __init__(self, places: Places, least: float) -> None:
        """Tokens with a chance below `least` are not drafted."""
        self._least = least
        self._waiting: list[Node] = []
        self._seen = 0
        self._bring_up(places, ROOT, 0, 1.0)

    def draft(self, most: int) -> Draft:
        """At most so many tokens, the likeliest first; none is likelier than its parent."""
        nodes: list[Node] = []
        while self._waiting and len(nodes) < most:
            node = heappop(self._waiting)
            self._bring_up(node.places, len(nodes), node.depth + 1, -node.unlikeliness)
            nodes.append(node)
        return Draft(
            tuple(node.token for node in nodes),
            tuple(node.parent for node in nodes),
            chances=tuple(-node.unlikeliness for node in nodes),
        )

    def _bring_up(self, places: Places, parent: int, depth: int, chance: float) -> None:
        """The tokens that may stand behind `parent`."""
        votes, agreeing = ballot(places, depth)
        share = chance / (1 + sum(votes.values()))
        for token, odds in votes.items():
            if share * odds >= self._least:
                self._seen += 1
                node = Node(-share * odds, self._seen, token, parent, depth, agreeing[token])
                heappush(self._waiting, node)


def ballot(places: Places, depth: int) -> tuple[dict[int, float], dict[int, list[Place]]]:
    """By what stands `depth` tokens behind the places: the odds for it, and who says so."""
    votes, agreeing = defaultdict[int, float](float), defaultdict[int, list[Place]](list)
    ranks = [0] * len(Source)
    for place in places:
        if depth < len(place.line):
            token = place.line[depth]
            ranks[place.source] += 1
            votes[token] += ODDS[place.source] * (place.likeness + depth) / ranks[place.source]
            agreeing[token].append(place)
    return votes, agreeing
