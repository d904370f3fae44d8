"""docs/performance.md says what the raw results say."""

from __future__ import annotations

import json

from ghostdraft.benchmarks import everything, page
from ghostdraft.benchmarks.holes import load_list


def test_the_page_is_made_from_the_results() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text) == text, "run python -m ghostdraft.benchmarks.page"


def test_every_result_is_of_the_list_that_ships() -> None:
    digest = load_list().sha256
    for path in (path for name in ("decode", "peers", "replay") for path in page.RESULTS.glob(f"{name}-*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        assert (result[0] if isinstance(result, list) else result)["holes_sha256"] == digest, path.name


def test_every_table_has_a_bench_and_every_bench_a_table() -> None:
    tables = {name for _, name, _ in page.SECTION.findall(page.PAGE.read_text(encoding="utf-8"))}
    assert tables == set(everything.commands("tiny", 1, "python"))
