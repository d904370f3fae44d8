"""How many drafted tokens pay on this machine now. Knows nothing of where they come from.

A drafted token brings its chance of being accepted, and costs the time of one more row in the pass. In that time,
decoding as it goes now would bring `tokens per second * seconds per row` tokens. What has a smaller chance than that
is not worth its row (a step's gain is weighed against the average rate, as in the marginal value theorem).
"""

from __future__ import annotations

from ghostdraft.drafting.types import Draft


class PassCost:
    """What a row of a pass takes, and how many tokens come per second: means over the last passes, learned as they
    go. Until there is something to go by, and as far as passes hardly differ in width, a row is taken for `GUESS` of
    a pass."""

    GUESS = 0.1
    STIFFNESS = 4.0  # how much variance of rows outweighs the guess
    DECAY = 0.98
    SPIKE = 3.0  # a pass this many times the mean was disturbed

    def __init__(self) -> None:
        self._passes = 0.0
        self._tokens = 0.0
        self._rows = 0.0
        self._seconds = 0.0
        self._rows_rows = 0.0
        self._rows_seconds = 0.0

    def learn(self, rows: int, tokens: int, seconds: float) -> None:
        """A pass over `rows` brought `tokens`."""
        if self._passes:
            seconds = min(seconds, self.SPIKE * self._seconds / self._passes)
        self._passes = self.DECAY * self._passes + 1
        self._tokens = self.DECAY * self._tokens + tokens
        self._rows = self.DECAY * self._rows + rows
        self._seconds = self.DECAY * self._seconds + seconds
        self._rows_rows = self.DECAY * self._rows_rows + rows * rows
        self._rows_seconds = self.DECAY * self._rows_seconds + rows * seconds

    @property
    def least_chance(self) -> float:
        """The tokens that the time of one row brings otherwise."""
        if not self._seconds:
            return self.GUESS
        return max(0.0, self._seconds_per_row()) * self._tokens / self._seconds

    def _seconds_per_row(self) -> float:
        """Least squares, leaning on the guess."""
        mean_rows, mean_seconds = self._rows / self._passes, self._seconds / self._passes
        covariance = self._rows_seconds - self._rows * mean_seconds
        variance = self._rows_rows - self._rows * mean_rows
        return (covariance + self.STIFFNESS * self.GUESS * mean_seconds) / (variance + self.STIFFNESS)


def worth_their_rows(draft: Draft, cost: PassCost) -> Draft:
    """The draft up to its first token that does not pay. A draft that gives no chances stays as it is: to drop
    a token that was drawn, for its small chance, would change the distribution of the output."""
    if draft.chances is None:
        return draft
    least = cost.least_chance
    return draft.first(next((i for i, chance in enumerate(draft.chances) if chance <= least), len(draft)))
