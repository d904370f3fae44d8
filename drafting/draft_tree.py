"""Lines of tokens grown together into one draft: where they begin the same they share their tokens. Knows no model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ghostdraft.drafting.types import Draft

ROOT = -1


class DraftTree:
    """The chances of tokens side by side add up to 1 at most: each later one gets what those before leave."""

    LEAST = 0.02  # a token with less of a chance does not pay even where rows cost next to nothing

    def __init__(self) -> None:
        self._token_ids: list[int] = []
        self._parents: list[int] = []
        self._chances: list[float] = []  # with all tokens on the path
        self._children: dict[tuple[int, int], int] = {}  # of a token, by what they say
        self._left: defaultdict[int, float] = defaultdict(lambda: 1.0)  # of its chance, by no child taken yet

    def add(self, line: Iterable[tuple[int, float]]) -> None:
        """Tokens, each with its chance once those before it stand and no other token in its place does."""
        parent = ROOT
        for token, chance in line:
            node = self._children.get((parent, token))
            if node is None:
                node = self._grown(parent, token, chance)
            if node is None:
                return
            parent = node

    def draft(self, most: int) -> Draft:
        """The likeliest tokens, at most so many, the likeliest first; none is likelier than its parent."""
        order = sorted(range(len(self._token_ids)), key=self._chances.__getitem__, reverse=True)[:most]
        places = {ROOT: ROOT} | {node: place for place, node in enumerate(order)}
        return Draft(
            tuple(self._token_ids[node] for node in order),
            tuple(places[self._parents[node]] for node in order),
            chances=tuple(self._chances[node] for node in order),
        )

    def _grown(self, parent: int, token: int, chance: float) -> int | None:
        """The new token; None where it has next to no chance."""
        left = self._left[parent]
        whole = chance * left * (1.0 if parent == ROOT else self._chances[parent])
        if whole < self.LEAST:
            return None
        node = self._children[parent, token] = len(self._token_ids)
        self._token_ids.append(token)
        self._parents.append(parent)
        self._chances.append(whole)
        self._left[parent] = left * (1 - chance)
        return node
