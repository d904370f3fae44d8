"""Whether drafting pays follows from acceptance and from what passes cost."""

from __future__ import annotations

import pytest

from ghostdraft.drafting.train import worth
from ghostdraft.drafting.train.worth import speedup
from ghostdraft.models.costs import Costs

FLAT = Costs(0, verify=((1, 1.0), (32, 1.0)), prefill=((1, 1.0),))
STEEP = Costs(0, verify=((1, 1.0), (2, 2.0)), prefill=((1, 1.0),))


@pytest.fixture(autouse=True)
def _nothing_around_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth, "AROUND", 0.0)


def test_free_drafts_are_as_long_as_can_be() -> None:
    assert speedup((1.0,), 0.0, FLAT, one_pass=False) == 1 + worth.DEEPEST
    assert speedup((0.5, 0.25), 0.0, FLAT, one_pass=True) == pytest.approx(1 + 0.5 + 0.5 * 0.25)


def test_passes_of_the_draft_cost() -> None:
    assert speedup((0.5,), 0.5, FLAT, one_pass=False) == pytest.approx(1.0)  # 1.5 tokens in 1.5 passes
    assert speedup((0.5,), 0.6, FLAT, one_pass=False) < 1
    assert speedup((0.5, 0.5), 0.5, FLAT, one_pass=True) == pytest.approx(1.75 / 1.5)  # one for both


def test_rows_cost() -> None:
    assert speedup((0.9,), 0.0, STEEP, one_pass=False) == pytest.approx(1.9 / 2)
