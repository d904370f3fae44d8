"""The tokens that a draft might have, as a tree that several sources speak about. Knows no model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ghostdraft.drafting.mixing import Mixer
from ghostdraft.drafting.types import Draft, Opening

ROOT = 0


@dataclass(slots=True)
class Node:
    """A token behind its parent's. `said`: by source, its chance once all before it stands; `chance`: with all before
    it. `left`: of the opening, behind it."""

    token: int
    parent: int
    depth: int
    left: Opening
    said: dict[str, float] = field(default_factory=dict)
    chance: float = 1.0


class Nodes:
    """Number 0 is the root: what stands."""

    def __init__(self, mixer: Mixer, opening: Opening) -> None:
        self._mixer = mixer
        self.all = [Node(-1, -1, 0, opening)]
        self._children: defaultdict[int, dict[int, int]] = defaultdict(dict)  # of each node, by their tokens

    def __getitem__(self, number: int) -> Node:
        return self.all[number]

    def children(self, number: int) -> dict[int, int]:
        """By their tokens."""
        return self._children[number]

    def say(self, source: str, parent: int, token: int, chance: float) -> int:
        """The node, which may be new. A chance of its own has none until `weigh`."""
        number = self._children[parent].get(token)
        if number is None:
            number = self._grown(parent, token)
        self.all[number].said[source] = chance
        return number

    def merge(self, source: str, draft: Draft) -> None:
        """All that a draft with chances says."""
        numbers: list[int] = []
        chances = draft.chances or (1.0,) * len(draft)
        for token, parent, chance in zip(draft.token_ids, draft.parents, chances, strict=True):
            above = 1.0 if parent < 0 else chances[parent]
            at = ROOT if parent < 0 else numbers[parent]
            numbers.append(self.say(source, at, token, chance / above if above else 0.0))

    def weigh(self) -> None:
        """Mixes what was said. The chances of tokens side by side add up to 1 at most."""
        for number, node in enumerate(self.all):
            mixed = {child: self._mixer.chance(self.all[child].said) for child in self._children[number].values()}
            whole = max(1.0, sum(mixed.values()))
            for child, chance in mixed.items():
                self.all[child].chance = node.chance * chance / whole

    def draft(self, most: int) -> Draft:
        """The likeliest tokens, at most so many, the likeliest first; none is likelier than its parent."""
        order = sorted(range(1, len(self.all)), key=lambda number: -self.all[number].chance)[:most]
        places = {ROOT: -1} | {number: place for place, number in enumerate(order)}
        chosen = [self.all[number] for number in order]
        return Draft(
            tuple(node.token for node in chosen),
            tuple(places[node.parent] for node in chosen),
            chances=tuple(node.chance for node in chosen),
        )

    def learn(self, token_ids: list[int]) -> None:
        """These came, one behind the other: so much is known of all that was said at their places."""
        at: int | None = ROOT
        for token in token_ids:
            if at is None:
                return
            for other, child in self._children[at].items():
                self._mixer.learn(self.all[child].said, other == token)
            at = self._children[at].get(token)

    def _grown(self, parent: int, token: int) -> int:
        above = self.all[parent]
        number = self._children[parent][token] = len(self.all)
        self.all.append(Node(token, parent, above.depth + 1, above.left.after(token)))
        return number
