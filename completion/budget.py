"""How long a suggestion may take, and how long it may be, per language. Knows nothing of what is suggested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ghostdraft.completion.types import Budget, Trigger

MILLISECONDS = 0.001
LINE_ENOUGH = 0.15  # seconds: several lines come where the machine writes them in this time, elsewhere line by line


@dataclass(frozen=True, slots=True)
class LanguageBudget:
    """`budget_ms` runs from the request's arrival and covers prefill; it binds suggestions that come by themselves.

    One that was asked for by hand waits as long as it takes. `trigger`: when to suggest at all.
    """

    budget_ms: int = 1500
    max_tokens: int = 96
    trigger: Trigger = Trigger.AUTO

    def allows(self, invoked: bool) -> bool:
        return self.trigger is Trigger.AUTO or (self.trigger is Trigger.INVOKED and invoked)

    def starting(self, arrival: float, invoked: bool) -> Budget:
        """The budget of a request that arrived at `arrival`, in seconds of `time.monotonic()`."""
        if invoked:
            return Budget(self.max_tokens)
        return Budget(self.max_tokens, arrival + self.budget_ms * MILLISECONDS, arrival + LINE_ENOUGH)


@dataclass(frozen=True, slots=True)
class Budgets:
    """`languages` by LSP languageId; every other language has `default`."""

    default: LanguageBudget = LanguageBudget()
    languages: Mapping[str, LanguageBudget] = field(default_factory=dict)

    def of(self, language_id: str) -> LanguageBudget:
        return self.languages.get(language_id, self.default)
