"""The replay of typing as a picture: how many of the pauses had ghost text so long after their key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ghostdraft.benchmarks.replay_table import WAYS


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Writes a PNG. Raises ImportError where matplotlib is not installed, OSError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for row in rows:
        for way in WAYS:
            axes.step(*curve(row[way]), where="post", label=f"{row['engine']}, {way.replace('_', ' ')}")
    axes.set(title=rows[0]["model"], xlabel="milliseconds after the key", ylabel="share of pauses", ylim=(0, 1))
    axes.legend(loc="lower right")
    figure.savefig(path, format="png", dpi=150)


def curve(of: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Times, and the share of the pauses that had text by then; it ends at the share that ever had."""
    times = [0.0, *sorted(wait for wait in of["waits_ms"] if wait is not None)]
    return times, [done / max(1, of["pauses"]) for done in range(len(times))]
