"""From what the stop rules left standing to what is inserted, and over what. Pure.

Tests apply the edit and look at the lines: everything before the cursor stays, and the rest of the cursor's line is
contained in what is inserted, in order, wherever it is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ghostdraft.completion.blocks import columns, indentation
from ghostdraft.completion.brackets import CLOSERS, QUOTES, left_open, unmatched_closers
from ghostdraft.completion.scene import Scene
from ghostdraft.completion.stopping import telling

MODEL_INDENT = 4  # blanks that stand for a tab, where the suggestion does not show its own level
LEAST_OVERLAP = 3  # code points; a shorter one is chance


@dataclass(frozen=True, slots=True)
class Insert:
    """`text` goes in at the cursor; over the rest of its line if `over_rest`. `ghost`: the part the model wrote."""

    text: str = ""
    ghost: str = ""
    over_rest: bool = False


def presentable(text: str, scene: Scene, markers: Sequence[str]) -> Insert:
    """The edit that shows `text`. `markers`: names of special tokens, at which a model that spells one is cut."""
    text = trimmed(without_markers(text, scene, markers), scene)
    text = without_next_lines(indented(text, scene), scene)
    insert = joined(text, scene)
    if not insert.ghost.strip() or not fits(insert, scene):
        return Insert()
    return Insert(_with_eol(insert.text, scene), _with_eol(insert.ghost, scene), insert.over_rest)


def without_markers(text: str, scene: Scene, markers: Sequence[str]) -> str:
    """Up to the first name of a special token, unless the code around uses such names itself."""
    around = "\n".join((scene.line, scene.rest, *scene.preceding, *scene.following))
    places = [at for marker in markers if marker not in around and (at := text.find(marker)) >= 0]
    return text[: min(places)] if places else text


def trimmed(text: str, scene: Scene) -> str:
    """Without blanks at its end, and without a second blank after one before the cursor."""
    text = text.rstrip() if scene.rest_closes else text.rstrip("\n")
    if scene.line.strip() and scene.line[-1:] in (" ", "\t"):
        text = text.lstrip(" \t")
    return text


def indented(text: str, scene: Scene) -> str:
    """With tabs or blanks as the file has them, and a first line no deeper than can be."""
    first, *more = text.split("\n")
    level = _level(scene.line + text)
    if not scene.line.strip():
        first = _reindented(first, scene, level)
        first = _fitting(first, scene) if scene.line else first
    return "\n".join([first, *(_reindented(line, scene, level) for line in more)])


def _reindented(line: str, scene: Scene, level: int) -> str:
    """Blanks behind a tab, and what is left of a level, align: they stay blanks in a file of tabs."""
    lead = indentation(line)
    if not lead or not scene.indent:
        return line
    if scene.indent == "\t" and lead[0] == " ":
        tabs, blanks = divmod(columns(line), level)
        return "\t" * tabs + " " * blanks + line[len(lead) :]
    return lead.replace("\t", scene.indent) + line[len(lead) :]


def _level(text: str) -> int:
    """How many blanks the suggestion means by one level; one alone aligns."""
    leads = [columns(line) for line in text.split("\n") if line.startswith("  ") and line.strip()]
    return min([MODEL_INDENT, *leads])


def _fitting(line: str, scene: Scene) -> str:
    """More blanks than stand before the cursor are right below a block's header, or up to the line before."""
    depth = columns(scene.line + indentation(line))
    under_header = scene.block is not None and columns(scene.line) <= scene.block.indent
    deep_enough = max(columns(scene.line), columns(scene.preceding[-1]) if scene.preceding else 0)
    return line if under_header or depth <= deep_enough else line.lstrip(" \t")


def without_next_lines(text: str, scene: Scene) -> str:
    """Up to where it repeats the next lines behind the cursor, inside a bracket that the cursor's line opens."""
    if "\n" in text:
        return text
    written, following = _without_blanks(text), [*map(_without_blanks, scene.following)]
    for count in range(len(following), 0, -1):
        behind = "".join(following[:count])
        if telling(behind) and written.endswith(behind) and scene.opened:
            return _start(text, len(written) - len(behind))
    return text


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _start(text: str, count: int) -> str:
    """The start of the text that has so many code points which are not blank, the last of them at its end."""
    places = [at for at, char in enumerate(text) if not char.isspace()]
    return text[: places[count - 1] + 1] if count else ""


def joined(text: str, scene: Scene) -> Insert:
    """The suggestion, with what it leaves of the rest of the line behind it where it supplies some of that itself."""
    if not scene.rest.strip():
        return Insert(text, text, over_rest=bool(scene.rest) and text.startswith(scene.rest))
    text, supplied = _over_closers(text, scene) if scene.rest_closes else _over_code(text, scene.rest)
    if not supplied:
        return Insert(text, text)
    whole = text + scene.rest[supplied:]
    return Insert(whole, text, over_rest=True) if whole.strip() != scene.rest.strip() else Insert()


def fits(insert: Insert, scene: Scene) -> bool:
    """Whether code behind the cursor on its line can still be read as code."""
    if scene.rest_closes or scene.reading is None:
        return True
    return not scene.reading.breaks(insert.text, len(scene.rest) if insert.over_rest else 0)


def _over_closers(text: str, scene: Scene) -> tuple[str, int]:
    """The text, and how much of a rest that only closes it supplies; none of the rest's brackets is closed by a
    bracket of the text's own, and none at all where the text ends in a string of its own. Where it leaves some of
    them open, it ends at the last that it closes; where blanks stand before the rest's first, before that."""
    if any(mark in QUOTES for mark in left_open(text, scene.opened)):
        return text, 0
    closing = unmatched_closers(text, scene.opened)
    if scene.rest[0].isspace() and any(text[place] == scene.rest.lstrip()[0] for place in closing[:1]):
        return text[: closing[0]].rstrip(), 0
    at, supplied = -1, 0
    for i, char in enumerate(scene.rest):
        found = _supplied_at(char, text, at, closing)
        if found is None:
            break
        at, supplied = found, i + 1
    left = scene.rest[supplied:].strip()
    return text[: at + 1] if supplied and left else text, supplied


def _supplied_at(char: str, text: str, at: int, closing: Sequence[int]) -> int | None:
    """Where behind `at` the text supplies `char` of the rest of the line."""
    if char in CLOSERS or char in QUOTES:
        return next((place for place in closing if place > at and text[place] == char), None)
    places = (place for place, other in enumerate(text) if place > at and other == char)
    return next((place for place in places if _ends_something(text, at, place)), None)


def _ends_something(text: str, at: int, place: int) -> bool:
    """Whether the mark at `place` follows the closer at `at`, or ends its line."""
    return (at >= 0 and not text[at + 1 : place].strip()) or not text[place + 1 :].split("\n")[0].strip()


def _over_code(text: str, rest: str) -> tuple[str, int]:
    """The text, and how much of a rest with code in it it supplies: all of it somewhere on its first line, or the
    start of it at that line's end. Only one that supplies all may have more lines."""
    first, code = text.split("\n")[0], rest.rstrip()
    if _begins_word(first, first.rfind(code), code):
        return text, len(code)
    for length in range(min(len(first), len(code)), LEAST_OVERLAP - 1, -1):
        if first.endswith(code[:length]) and _begins_word(first, len(first) - length, code):
            return first, length
    return first, 0


def _begins_word(text: str, at: int, word: str) -> bool:
    """Whether `word`, found at `at`, is not the tail of a longer word there."""
    return at >= 0 and not (re.match(r"\w", word) and re.search(r"\w$", text[:at]))


def _with_eol(text: str, scene: Scene) -> str:
    return text.replace("\n", scene.eol)
