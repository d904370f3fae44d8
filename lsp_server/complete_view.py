"""A completion on the terminal, ghost text among the lines around it, or as JSON. Nothing is decided here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ghostdraft.completion.blocks import TAB
from ghostdraft.completion.types import Completion, Snapshot
from ghostdraft.lsp_server.documents import Document, Point, split_lines

if TYPE_CHECKING:
    from rich.text import Text

AROUND = 3  # lines before and after
SIGHT = 200  # code points of a line, before the cursor and behind it
GHOST = "italic cyan"
STATS = (
    "prompt_tokens",
    "reused_tokens",
    "generated_tokens",
    "steps",
    "undrafted_steps",
    "drafted",
    "accepted",
    "prefill_ms",
    "decode_ms",
    "draft_ms",
    "total_ms",
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a file; `point` counts from 0, as everything but the command line does."""

    document: Document
    point: Point

    @property
    def snapshot(self) -> Snapshot:
        document = self.document
        return Snapshot(document.uri, 0, document.language_id, document.text, document.offset(self.point))


@dataclass(frozen=True, slots=True)
class Outcome:
    cursor: Cursor
    completion: Completion
    model: str
    drafter: str

    @property
    def end(self) -> Point:
        """Where the replaced text ends; on the cursor's line."""
        point = self.cursor.point
        return Point(point.line, point.column + self.completion.end - self.completion.start)


def as_json(outcome: Outcome) -> str:
    completion = outcome.completion
    fields = {
        "text": completion.text,
        "range": {"start": _from_one(outcome.cursor.point), "end": _from_one(outcome.end)},
        "stop_reason": completion.stop_reason.value,
        "model": outcome.model,
        "drafter": outcome.drafter,
        "stats": {name: _rounded(getattr(completion.stats, name)) for name in STATS},
    }
    return json.dumps(fields, indent=2)


def _from_one(point: Point) -> dict[str, int]:
    return {"line": point.line + 1, "column": point.column + 1}


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def show(outcome: Outcome) -> None:
    """Prints the lines around the cursor with the ghost text in colour, or in «» where there is none."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    ghost = GHOST if console.is_terminal and not console.no_color else None
    for line in _lines(outcome, ghost):
        console.print(line)
    console.print(_summary(outcome), style="dim")


def _lines(outcome: Outcome, ghost: str | None) -> list[Text]:
    from rich.text import Text

    document, at = outcome.cursor.document, outcome.cursor.point.line
    count = document.line_count - (document.line(document.line_count - 1) == "")
    before, after = range(max(0, at - AROUND), at), range(at + 1, min(count, at + 1 + AROUND))
    written = list(_completed(outcome, ghost).split("\n", allow_blank=True))
    near = [Text(_clipped(document.line(number))) for number in (*before, *after)]
    lines = [*near[: len(before)], *written, *near[len(before) :]]
    for line in lines:
        line.expand_tabs(TAB)
    numbers = [*before, at, *[None] * (len(written) - 1), *after]
    return [Text.assemble((_gutter(number), "dim"), line) for number, line in zip(numbers, lines, strict=True)]


def _gutter(number: int | None) -> str:
    """Counted from 1; lines that are not in the file have none."""
    return f"{'' if number is None else number + 1:>5} "


def _completed(outcome: Outcome, ghost: str | None) -> Text:
    """The cursor's line with the completion carried out."""
    from rich.text import Text

    line = outcome.cursor.document.line(outcome.cursor.point.line)
    completed = Text(_clipped(line[: outcome.cursor.point.column][::-1])[::-1])
    for piece, new in _pieces(outcome.completion.text, line[outcome.cursor.point.column : outcome.end.column]):
        completed.append(piece if ghost or not new else f"«{piece}»", style=ghost if new else None)
    return completed.append(_clipped(line[outcome.end.column :]))


def _clipped(text: str) -> str:
    return text if len(text) <= SIGHT else text[:SIGHT] + "…"


def _pieces(text: str, replaced: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is new: what was `replaced` stands in it, as far back as it can."""
    pieces: list[tuple[str, bool]] = []
    rest = replaced
    for character in reversed("\n".join(line.rstrip("\r\n") for line in split_lines(text))):
        new = not (rest and rest[-1] == character)
        rest = rest if new else rest[:-1]
        if pieces and pieces[-1][1] is new:
            pieces[-1] = (character + pieces[-1][0], new)
        else:
            pieces.append((character, new))
    return pieces[::-1]


def _summary(outcome: Outcome) -> str:
    completion, stats = outcome.completion, outcome.completion.stats
    tokens = stats.generated_tokens
    what = f"{tokens} token{'' if tokens == 1 else 's'}" if completion.text else "nothing to suggest"
    drafted = f", {stats.accepted} of {stats.drafted} drafted tokens accepted" if stats.drafted else ""
    spent = f"{stats.total_ms:,.0f} ms ({stats.prefill_ms:,.0f} to read, {stats.decode_ms:,.0f} to write)"
    return f"{outcome.model}, {outcome.drafter}: {what} in {spent}{drafted}; stopped at: {completion.stop_reason}"
