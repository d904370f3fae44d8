"""Decoding beside the peers: who writes when, what a row says, and that few tokens do not make the figure."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ghostdraft.benchmarks import peer_decode
from ghostdraft.benchmarks.decode import Task
from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.benchmarks.peer_decode import Times


@dataclass
class Scripted:
    name: str
    variant: str
    seconds: list[float]
    calls: list[str]
    read_tasks: list[Task] = field(default_factory=list)

    def read(self, task: Task) -> None:
        self.read_tasks.append(task)

    def write(self, _task: Task) -> float:
        self.calls.append(self.name)
        return self.seconds.pop(0)


def cursor(text: str) -> Cursor:
    return Cursor("a.py", "python", text, 0)


def test_each_writes_once_a_round_and_a_hole_counts_with_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_decode, "PAUSE", 0.0)
    calls: list[str] = []
    one = Scripted("one", "", [1.0, 9.0, 2.0, 4.0, 4.0, 4.0], calls)
    two = Scripted("two", "", [1.0] * 6, calls)
    found = peer_decode.measure(
        lambda at: Task((1,), len(at.text)), [one, two], [cursor("xx"), cursor("xxx")], 3, lambda _done, _who: None
    )
    assert found[0] == Times("one", "", [2, 3], [[1.0, 9.0, 2.0], [4.0, 4.0, 4.0]])
    assert found[0].seconds == [2.0, 4.0]
    assert [task.tokens for task in two.read_tasks] == [2, 3]
    assert calls == ["one", "two", "two", "one", "one", "two", "two", "one", "one", "two", "two", "one"]


def times(name: str, seconds: list[float], variant: str = "") -> Times:
    return Times(name, variant, [60, 1], [[of] for of in seconds])


def test_the_figure_is_the_ratio_of_the_sums_and_the_fastest_variant_stands_for_a_row() -> None:
    ours = times("ours", [1.0, 0.1])
    found = peer_decode.rows([ours, times("them", [5.0, 0.5], "slow"), times("them", [3.0, 0.3], "fast")], "ours")
    assert [(row.name, row.variant) for row in found] == [("ours", ""), ("them", "fast")]
    assert found[0].ratio == 1.0
    assert found[1].ratio == pytest.approx(3.0)
    assert found[1].tokens_per_second == pytest.approx(61 / 3.3)


def test_a_hole_with_one_token_does_not_move_the_figure_far() -> None:
    (_, row) = peer_decode.rows([times("ours", [1.0, 0.2]), times("them", [3.0, 0.05])], "ours")
    assert row.ratio == pytest.approx(3.05 / 1.2)
    assert row.ratio_quartiles == pytest.approx((0.9375, 1.625, 2.3125))
