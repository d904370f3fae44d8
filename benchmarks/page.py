"""Writes the tables of docs/performance.md from raw results: `python -m ghostdraft.benchmarks.page`.

Results are what the benches print with --json, as results/NAME-MODEL.json. Nothing is measured here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ghostdraft.benchmarks import (
    cancel,
    contexts,
    decode_table,
    fidelity,
    keystroke,
    memory,
    passes,
    peers,
    replay_table,
    startup,
)

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "performance.md"

SECTION = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Rows = Iterable[Sequence[str]]


def filled(page: str) -> str:
    """The page with every table made anew."""
    return SECTION.sub(lambda found: f"{found[1]}{_section(found[2])}{found[3]}", page)


def _section(name: str) -> str:
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob(f"{name}-*.json"))]
    if not results:
        return "Not measured yet.\n"
    heads, rows, notes = _SECTIONS[name]
    body = [row for result in results for row in rows(result)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *body))
    said = dict.fromkeys(note for result in results for note in notes(result))
    return f"{table}\n\n" + "".join(f"- {note}\n" for note in said)


def _decode(result: Any) -> Rows:
    for row in result:
        yield _decode_row(row["model"], row["drafter"], row)
        for language, each in row["languages"].items() if row["drafter"] != "none" else ():
            yield _decode_row(row["model"], f"{row['drafter']}, {language}", each)


def _decode_row(model: str, drafter: str, figures: Any) -> Sequence[str]:
    name, *cells = decode_table.cells(drafter, figures)
    return model, name, str(figures["cursors"]), *cells


def _decode_notes(result: Any) -> Iterable[str]:
    yield f"Holes: sha256 `{result[0]['holes_sha256']}`"
    yield result[0]["machine"]


def _peers(result: Any) -> Rows:
    for row in result["rows"]:
        yield result["model"], *peers.cells(row)


def _peers_notes(result: Any) -> Iterable[str]:
    yield (
        f"{result['model']}: {result['holes']} holes, {result['tokens']} tokens, medians of {result['rounds']} rounds"
    )
    yield from (f"{result['model']}: {sentence}" for sentence in peers.said(result))
    yield f"Holes: sha256 `{result['holes_sha256']}`"
    yield from result["notes"]
    yield result["machine"]


def _passes_notes(result: Any) -> Iterable[str]:
    yield from (f"{result['model']}: {sentence}" for sentence in passes.said(result))
    yield result["peer"]
    yield result["machine"]


def _replay(result: Any) -> Rows:
    for row in result:
        for cells in replay_table.cells(row):
            yield row["model"], *cells


def _replay_notes(result: Any) -> Iterable[str]:
    first = result[0]
    yield f"{first['lines']} lines typed at each of {first['holes']} holes, seed {first['seed']}"
    yield f"Holes: sha256 `{first['holes_sha256']}`"
    yield first["machine"]


def _with_model(rows: Callable[[Any], Rows]) -> Callable[[Any], Rows]:
    return lambda result: ((result["model"], *cells) for cells in rows(result))


def _cancel_notes(result: Any) -> Iterable[str]:
    yield cancel.said(result)
    yield result["machine"]


def _memory_notes(result: Any) -> Iterable[str]:
    yield from memory.notes(result)
    yield result["machine"]


def _fidelity(result: Any) -> Rows:
    return ((result[0]["model"], *cells) for cells in fidelity.rows(result))


def _machine(result: Any) -> Iterable[str]:
    yield result["machine"]


def _nothing(_result: Any) -> Iterable[str]:
    return ()


_SECTIONS: dict[str, tuple[Sequence[str], Callable[[Any], Rows], Callable[[Any], Iterable[str]]]] = {
    "decode": (("model", "drafter", "holes", *decode_table.COLUMNS[1:]), _decode, _decode_notes),
    "peers": (("model", *peers.COLUMNS), _peers, _peers_notes),
    "passes": (("model", *passes.COLUMNS), _with_model(passes.rows), _passes_notes),
    "replay": (("model", *replay_table.COLUMNS), _replay, _replay_notes),
    "startup": (("model", *startup.COLUMNS), _with_model(startup.rows), _machine),
    "cancel": (("model", *cancel.COLUMNS), _with_model(cancel.rows), _cancel_notes),
    "keystroke": (("model", *keystroke.COLUMNS), _with_model(keystroke.rows), _machine),
    "contexts": (("model", *contexts.COLUMNS), _with_model(contexts.rows), _machine),
    "memory": (("model", *memory.COLUMNS), _with_model(memory.rows), _memory_notes),
    "fidelity": (("model", *fidelity.COLUMNS), _fidelity, _nothing),
}  # fmt: skip


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
