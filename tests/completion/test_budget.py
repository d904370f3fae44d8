"""Budgets per language."""

from __future__ import annotations

import pytest

from ghostdraft.completion.budget import LINE_ENOUGH, Budgets, LanguageBudget
from ghostdraft.completion.types import Budget, Trigger


def test_a_language_without_its_own_budget_has_the_default() -> None:
    python = LanguageBudget(budget_ms=200, max_tokens=16)
    budgets = Budgets(LanguageBudget(budget_ms=900), {"python": python})
    assert budgets.of("python") is python
    assert budgets.of("go").budget_ms == 900


def test_the_deadline_runs_from_the_arrival_and_binds_automatic_requests_only() -> None:
    budget = LanguageBudget(budget_ms=250, max_tokens=16)
    automatic = budget.starting(100.0, invoked=False)
    assert automatic == Budget(16, pytest.approx(100.25), pytest.approx(100.0 + LINE_ENOUGH))
    assert budget.starting(100.0, invoked=True) == Budget(16)


@pytest.mark.parametrize(
    ("trigger", "automatic", "invoked"),
    [(Trigger.AUTO, True, True), (Trigger.INVOKED, False, True), (Trigger.OFF, False, False)],
)
def test_triggers(trigger: Trigger, automatic: bool, invoked: bool) -> None:
    budget = LanguageBudget(trigger=trigger)
    assert (budget.allows(invoked=False), budget.allows(invoked=True)) == (automatic, invoked)
