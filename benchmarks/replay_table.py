"""The replay of typing as rows of JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.benchmarks.replay import LINES, Replay, summarise, typed_part
from ghostdraft.benchmarks.replay_editor import SERVER, serving
from ghostdraft.benchmarks.report import Bar, machine_line, print_table
from ghostdraft.benchmarks.typing_model import Keystroke, keystrokes

COLUMNS = ("engine", "pauses", "shown", "p50 ms", "p90 ms", "p95 ms", "exact", "reused", "for nothing", "CPU s/min")
WAYS = {"as_typed": False, "finished": True}  # whether a pause lasts until the answer is there

Script = Sequence[Keystroke]


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that is typed into: `server` is its command, `name` what the table calls it."""

    name: str
    drafter: str
    server: Sequence[str] = SERVER


def scripts(cursors: Sequence[Cursor], seed: int) -> list[Script]:
    """What is typed at each cursor; it depends on the seed and on that cursor alone."""
    return [_script(cursor, Random(f"{seed}:{cursor.name}")) for cursor in cursors]


def _script(cursor: Cursor, chance: Random) -> Script:
    indent = cursor.text[: cursor.offset].rpartition("\n")[2]
    return keystrokes(typed_part(cursor.body), indent, chance)


def typing_minutes(scripts: Sequence[Script], contenders: int) -> float:
    """How long the keys take, with so many contenders; waiting for the model comes on top."""
    return sum(script[-1].at for script in scripts) * contenders * len(WAYS) / 60


def rows(
    model: str,
    contenders: Sequence[Contender],
    cursors: Sequence[Cursor],
    scripts: Sequence[Script],
    about: dict[str, Any],
) -> list[dict[str, Any]]:
    """One row a contender; `about` goes into each. Raises ServerEnded."""
    replays = _play(model, contenders, cursors, scripts)
    about = {"model": model, "holes": len(cursors), "lines": LINES, **about, "machine": machine_line(None)}
    return [
        {"engine": one.name, **{way: summarise(replays[one.name, way]).as_json() for way in WAYS}, **about}
        for one in contenders
    ]


def _play(
    model: str, contenders: Sequence[Contender], cursors: Sequence[Cursor], scripts: Sequence[Script]
) -> dict[tuple[str, str], list[Replay]]:
    """By name and way. All have servers of their own and take turns at each hole."""
    replays: dict[tuple[str, str], list[Replay]] = {(one.name, way): [] for one in contenders for way in WAYS}
    with ExitStack() as servers, Bar("replays") as bar:
        editors = {
            (one.name, way): servers.enter_context(serving(model, one.drafter, finishes, one.server))
            for one in contenders
            for way, finishes in WAYS.items()
        }
        for hole, (cursor, script) in enumerate(zip(cursors, scripts, strict=True)):
            for turn, (key, editor) in enumerate(editors.items()):
                bar.show(hole * len(editors) + turn, len(cursors) * len(editors), cursor.name)
                replays[key].append(editor.play(cursor, script))
    return replays


def show(rows: Sequence[dict[str, Any]]) -> None:
    first = rows[0]
    title = f"{first['model']}: {first['lines']} lines typed at each of {first['holes']} holes, seed {first['seed']}"
    lines = [line for row in rows for line in cells(row)]
    print_table(title, COLUMNS, lines, (f"holes: sha256 {first['holes_sha256']}", first["machine"]))


def cells(row: dict[str, Any]) -> list[list[str]]:
    """A contender's two lines of the table."""
    return [[f"{row['engine']}, {way.replace('_', ' ')}", *_figures(row[way])] for way in WAYS]


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
