"""How benches end: what failed is told in a sentence, and the page reads what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ghostdraft.benchmarks import fidelity, fim_orders, page, startup
from ghostdraft.benchmarks.fidelity import Fidelity
from ghostdraft.benchmarks.startup import Start
from ghostdraft.models.store import Store


def run(main: Callable[..., None], *arguments: str) -> Any:
    app = typer.Typer()
    app.command()(main)
    return CliRunner().invoke(app, arguments)


def printed(main: Callable[..., None], *arguments: str) -> Any:
    result = run(main, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def page_rows(name: str, result: Any) -> list[list[str]]:
    _, rows, _ = page._SECTIONS[name]
    return [list(row) for row in rows(result)]


@pytest.mark.parametrize("bench", [startup, fidelity, fim_orders])
def test_a_model_that_is_not_known_is_told(bench: Any) -> None:
    result = run(bench.main, "--model", "abacus")
    assert result.exit_code == 2
    assert "abacus" in result.stderr
    assert "Traceback" not in result.output


def test_the_page_reads_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((9.0, 0.1, 0.3, 0.5))
    monkeypatch.setattr(startup, "start", lambda _model: Start(at := next(times), 2 * at))
    rows = page_rows("startup", printed(startup.main, "--rounds", "3"))
    assert rows[0] == ["tiny", "`initialize` answered", "3", "0.30", "0.10", "0.50"], "the first start does not count"
    assert rows[1] == ["tiny", "model ready", "3", "0.60", "0.20", "1.00"]


def test_the_page_reads_fidelity(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Fidelity("tiny", "cpu", "torch", 20_440, "ab", 0.98765, 1.25, 0.00123)
    monkeypatch.setattr(fidelity, "measure", lambda *_: [found])
    monkeypatch.setattr(Store, "find", lambda _self, name: name)
    rows = page_rows("fidelity", printed(fidelity.main))
    assert rows == [["tiny", "cpu", "torch", "20,440", "98.77%", "+0.0012"]]
