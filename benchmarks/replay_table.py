"""The replay of typing as rows of JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from random import Random
from typing import Any

from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.benchmarks.replay import LINES, Replay, summarise, typed_part
from ghostdraft.benchmarks.replay_editor import serving
from ghostdraft.benchmarks.report import Bar, machine_line, print_table
from ghostdraft.benchmarks.typing_model import Keystroke, keystrokes

COLUMNS = ("drafter", "pauses", "shown", "p50 ms", "p90 ms", "p95 ms", "exact", "reused", "for nothing", "CPU s/min")
WAYS = {"as_typed": False, "finished": True}  # whether a pause lasts until the answer is there

Script = Sequence[Keystroke]


def scripts(cursors: Sequence[Cursor], seed: int) -> list[Script]:
    """What is typed at each cursor; it depends on the seed and on that cursor alone."""
    return [_script(cursor, Random(f"{seed}:{cursor.name}")) for cursor in cursors]


def _script(cursor: Cursor, chance: Random) -> Script:
    indent = cursor.text[: cursor.offset].rpartition("\n")[2]
    return keystrokes(typed_part(cursor.body), indent, chance)


def typing_minutes(scripts: Sequence[Script], drafters: Sequence[str]) -> float:
    """How long the keys take, with every drafter; waiting for the model comes on top."""
    return sum(script[-1].at for script in scripts) * len(drafters) * len(WAYS) / 60


def rows(
    model: str, drafters: Sequence[str], cursors: Sequence[Cursor], scripts: Sequence[Script], about: dict[str, Any]
) -> list[dict[str, Any]]:
    """One row a drafter; `about` goes into each. Raises ServerEnded."""
    replays = _play(model, drafters, cursors, scripts)
    about = {"model": model, "holes": len(cursors), "lines": LINES, **about, "machine": machine_line(None)}
    return [
        {"drafter": drafter, **{way: summarise(replays[drafter, way]).as_json() for way in WAYS}, **about}
        for drafter in drafters
    ]


def _play(
    model: str, drafters: Sequence[str], cursors: Sequence[Cursor], scripts: Sequence[Script]
) -> dict[tuple[str, str], list[Replay]]:
    """By drafter and way. All have servers of their own and take turns at each hole."""
    keys = [(drafter, way) for drafter in drafters for way in WAYS]
    replays: dict[tuple[str, str], list[Replay]] = {key: [] for key in keys}
    with ExitStack() as servers, Bar("replays") as bar:
        editors = {key: servers.enter_context(serving(model, key[0], WAYS[key[1]])) for key in keys}
        for hole, (cursor, script) in enumerate(zip(cursors, scripts, strict=True)):
            for turn, (key, editor) in enumerate(editors.items()):
                bar.show(hole * len(keys) + turn, len(cursors) * len(keys), cursor.name)
                replays[key].append(editor.play(cursor, script))
    return replays


def show(rows: Sequence[dict[str, Any]]) -> None:
    first = rows[0]
    title = f"{first['model']}: {first['lines']} lines typed at each of {first['holes']} holes, seed {first['seed']}"
    lines = [line for row in rows for line in cells(row)]
    print_table(title, COLUMNS, lines, (f"holes: sha256 {first['holes_sha256']}", first["machine"]))


def cells(row: dict[str, Any]) -> list[list[str]]:
    """A drafter's two lines of the table."""
    return [[f"{row['drafter']}, {way.replace('_', ' ')}", *_figures(row[way])] for way in WAYS]


def _figures(of: dict[str, Any]) -> list[str]:
    return [
        str(of["pauses"]),
        f"{of['shown_rate']:.0%}",
        *("-" if of[key] is None else f"{of[key]:.0f}" for key in ("p50_ms", "p90_ms", "p95_ms")),
        f"{of['exact_first_lines']} of {of['shown']}",
        f"{of['reused_tokens'] / max(1, of['prompt_tokens']):.0%}",
        f"{of['cancelled_tokens']:,} of {of['computed_tokens']:,}",
        f"{of['cpu_seconds_per_typed_minute']:.1f}",
    ]
