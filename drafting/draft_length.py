"""How many drafted tokens pay on this machine now. Knows nothing of where they come from, and no clock.

A draft of n tokens with the chances c brings 1 + c[0] + ... + c[n - 1] tokens, and takes the time of drafting and of a
pass over n + 1 rows. Tokens per second over many steps are greatest when each step has the length that maximises

    expected tokens - rate * seconds

where `rate` is the tokens per second that come out of all steps: a step's time could bring that much elsewhere. This is
the parametric form of a ratio of sums (Dinkelbach 1967); the marginal value theorem says the same of foragers. The best
length of each step by itself would cut good drafts short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ghostdraft.drafting.types import Draft, Price
from ghostdraft.models.costs import Costs

FEW = 8  # rows


@dataclass(frozen=True, slots=True)
class Took:
    """The seconds that a draft took, and those of the pass over so many rows that judged it."""

    drafting: float
    judging: float
    rows: int


class DraftLength:
    """Decides by `costs`, and by what it learned of the last drafts: `rate`, and how far chances are to be trusted."""

    MEMORY = 0.98  # of what was learned stays with each step
    CAUTION = 8.0  # tokens, as expected and in steps of one: what counts until more is known, and as long as little is

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._expected = self._accepted = 0.0  # drafted tokens
        self._tokens = self._seconds = 0.0  # of all steps; seconds as the costs say
        self._load = 1.0  # how many times as long as the costs say passes take now
        self._patience = Patience()

    def asks(self) -> bool:
        """Once a step: whether to ask for a draft in it; not where drafting did not pay lately."""
        return self._patience.asks()

    @property
    def given_up(self) -> bool:
        """Whether nobody is asked, and that not for the first time on end."""
        return self._patience.given_up

    @property
    def trust(self) -> float:
        """How many tokens were accepted for each that was expected to be."""
        return (self.CAUTION + self._accepted) / (self.CAUTION + self._expected)

    @property
    def rate(self) -> float:
        """Tokens per second, where passes take as long as the costs say."""
        seconds = self.CAUTION * step_seconds(self.costs, 0) + self._seconds
        return (self.CAUTION + self._tokens) / seconds

    @property
    def price(self) -> Price:
        """For whoever drafts, with the machine as it is now: a row's is that of one among the first few."""
        row = (self.costs.verify_seconds(1 + FEW) - self.costs.verify_seconds(1)) / FEW
        return Price(self.rate / self._load, self._load * row)

    def worth(self, draft: Draft, riding: int = 0) -> Draft:
        """The part of the draft that pays, in a pass with `riding` rows more. One that gives no chances stays as it is:
        to drop a token that was drawn, for its small chance, would change the distribution of the output."""
        if draft.chances is None:
            return draft
        chances = [min(1.0, self.trust * chance) for chance in draft.chances]
        return draft.first(best_length(chances, self.costs, self.rate, riding))

    def learn(self, draft: Draft, accepted: int, took: Took) -> None:
        """So many tokens of this draft were accepted. Of a step in which nobody was asked there is nothing to learn."""
        said = self.costs.verify_seconds(took.rows)
        self._load += (1 - self.MEMORY) * (took.judging / said - self._load)
        drafting = took.drafting / self._load
        self._patience.learn(accepted - (drafting + self._extra(draft)) / self.costs.verify_seconds(1))
        judged = draft.chances is not None
        self._expected = self.MEMORY * self._expected + sum(draft.chances or ())
        self._accepted = self.MEMORY * self._accepted + (accepted if judged else 0)
        self._tokens = self.MEMORY * self._tokens + 1 + accepted
        self._seconds = self.MEMORY * self._seconds + drafting + self.costs.verify_seconds(1 + len(draft))

    def _extra(self, draft: Draft) -> float:
        """The seconds that its rows take."""
        return self.costs.verify_seconds(1 + len(draft)) - self.costs.verify_seconds(1)


class Patience:
    """With a drafter that costs more than it brings: it is not asked for a while then, each time twice as long.

    `credit`, in tokens, is what it may cost until then; what it brings adds to that.
    """

    MOST = 6.0
    TRIAL = 2.0  # after each rest
    FIRST_REST, LONGEST_REST = 64, 1024  # steps

    def __init__(self) -> None:
        self._credit = self.MOST
        self._rest = 0  # steps left
        self._next_rest = self.FIRST_REST

    def asks(self) -> bool:
        """Once a step: whether to ask for a draft in it."""
        if self._rest:
            self._rest -= 1
            return False
        return True

    @property
    def given_up(self) -> bool:
        """In a rest that another one came before."""
        return self._rest > 0 and self._next_rest > 2 * self.FIRST_REST

    def learn(self, gain: float) -> None:
        """Of a step in which it was asked: the tokens that it brought, less those that its time would have."""
        self._credit = min(self.MOST, self._credit + gain)
        if self._credit >= self.MOST:
            self._next_rest = self.FIRST_REST
        elif self._credit <= 0:
            self._credit, self._rest = self.TRIAL, self._next_rest
            self._next_rest = min(2 * self._next_rest, self.LONGEST_REST)


def best_length(chances: Sequence[float], costs: Costs, rate: float, riding: int = 0) -> int:
    """How many of the tokens that are accepted with these chances to draft, where time is worth `rate` tokens a
    second, and `riding` rows more are in the pass; the least of equals."""
    tokens = accumulate(chances, initial=1.0)
    values = [expected - rate * step_seconds(costs, riding + length) for length, expected in enumerate(tokens)]
    return max(range(len(values)), key=values.__getitem__)


def step_seconds(costs: Costs, drafted: int) -> float:
    """Of a step that drafts so many tokens."""
    return costs.draft + costs.verify_seconds(drafted + 1)
