"""Where a suggestion ends: rules over its text as it streams in. Pure; knows nothing of tokens or models.

    line         its line is whole, and opens no block: up to the line break
    block        the block that it opened, or whose missing body it writes, is whole: with the closing line, or without
                 it where that line stands behind the cursor already
    bracket      the closer that comes next stands behind the cursor already: up to there
    suffix       it has reached the lines behind the cursor: up to the first of them
    repetition   a line for the third time, a cycle of lines, or a line that runs in circles: up to the first repeat
    end_of_text  the model ended it: all of it
    max_tokens   whole lines, or of a single line all there is
    deadline     whole lines, or nothing; with either, none at the end that leaves something open. After a while a whole
                 line is enough, and ends it so too

Several lines are allowed where the line that is being written opens a block, or where the cursor stands on an empty
line and begins the missing body of a block; where nothing deeper stands behind the cursor; never inside a string or
a comment, nor before other code on the cursor's line. A rule looks only at what came before it: a suggestion ends at
the same place however it is cut into pieces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import starmap

from ghostdraft.completion.blocks import Block, Outline, Sign, columns, outline
from ghostdraft.completion.brackets import CLOSERS, unmatched_closers
from ghostdraft.completion.scene import SIGHT, Scene
from ghostdraft.completion.types import StopReason

MOST_BLANK_LINES = 2
LOOP_CHECK = 16  # code points of a line between two looks for a loop
LOOPS = tuple((length, 6 if length <= 32 else 3) for length in range(1, 97))  # code points, how often
LEAST_LOOP = 64  # code points of all of them
NESTED = re.compile(r"(?<!\w)(\w[\w.:]{3,}\()\1{2}$")  # a call of the same name within itself, twice
CYCLES = tuple((length, 3 if length < 4 else 2) for length in range(1, 9))  # lines, how often they may not stand
TRIVIAL = 4  # letters and digits; a line with fewer repeats another one by chance


@dataclass(frozen=True, slots=True)
class Stop:
    """`keep`: so many code points of the suggestion stay."""

    reason: StopReason
    keep: int


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that is whole and not blank: its text with what stood before the cursor, and its range in the stream."""

    text: str
    start: int
    end: int


class Stopper:
    """Takes a suggestion piece by piece and says where it ends."""

    def __init__(self, scene: Scene) -> None:
        self.text = ""
        self._scene = scene
        self._block = scene.block
        self._line_start = 0
        self._blank_lines = 0
        self._lines: list[_Line] = []
        self._outline = self._outline_to(0)
        self._opened_depth = self._outline.depth
        self._stop: Stop | None = None

    def feed(self, piece: str) -> Stop | None:
        """The first stop in all that was fed so far."""
        for char in piece:
            if self._stop is not None:
                break
            self.text += char
            self._stop = self._look_at(char, len(self.text) - 1)
        return self._stop

    def close(self, reason: StopReason) -> Stop:
        """No more will come, for this reason; a last line without its end counts as whole where the model ended it."""
        if self._stop is None and reason is StopReason.END_OF_TEXT:
            self._stop = self._end_of_text()
        if self._stop is None:
            self._stop = Stop(reason, self._whole(reason))
        return self._stop

    @property
    def has_line(self) -> bool:
        """Whether a whole line is there."""
        return bool(self._lines)

    def _look_at(self, char: str, at: int) -> Stop | None:
        if char == "\n":
            return self._line_ends(at)
        if not char.isspace() and not self._current(at).strip():
            return self._line_begins(char, at) or self._closer(char, at)
        if self._runs_in_circles(at):
            return Stop(StopReason.REPETITION, self._kept())
        return self._closer(char, at)

    def _current(self, at: int) -> str:
        """The line that holds `at`, up to there, with what stands before the cursor."""
        before = self._scene.line if self._line_start == 0 else ""
        return before + self.text[self._line_start : at]

    def _kept(self) -> int:
        """The end of the last whole line that is not blank."""
        return self._lines[-1].end if self._lines else 0

    # Lines that begin

    def _line_begins(self, char: str, at: int) -> Stop | None:
        """`char` is the first of its line: does the block end before it?"""
        block = self._block
        if block is None or self._outline.literal:
            return None
        depth = columns(self._current(at))
        if block.sign is Sign.DEDENT and depth <= block.indent and self._outline.depth == 0:
            return Stop(StopReason.BLOCK, self._kept())
        if block.sign is Sign.BRACKET and self._ends_before(block, char, depth):
            return Stop(StopReason.BLOCK, self._kept())
        return None

    def _ends_before(self, block: Block, char: str, depth: int) -> bool:
        """The block's own closer is next and stands behind the cursor; or the lines have left the block unclosed."""
        if char in CLOSERS:
            own = self._stands_behind(char) and columns(self._scene.following[0]) == block.indent
            return own and self._outline.depth <= self._opened_depth
        return depth < block.indent and char != "#"

    def _stands_behind(self, closer: str) -> bool:
        following = self._scene.following
        return bool(following) and following[0].lstrip().startswith(closer)

    def _closer(self, char: str, at: int) -> Stop | None:
        """A closer on the first line that stands behind the cursor already, on its line or as the start of the next."""
        if char not in CLOSERS or self._line_start or not self._scene.brackets_known:
            return None
        found = unmatched_closers(self.text, self._scene.opened)
        if at not in found:
            return None
        if not self._scene.rest_closes:
            rest = self._scene.rest[:SIGHT]
            doubled = any(rest[i] == char for i in unmatched_closers(rest)[:1])
        else:
            doubled = not self._scene.rest.strip() and self._doubles_next_line(char, found.index(at))
        return Stop(StopReason.BRACKET, at) if doubled else None

    def _doubles_next_line(self, closer: str, closed: int) -> bool:
        """The line's own brackets are closed first; what opened before the line is closed by a line less deep."""
        if not self._stands_behind(closer):
            return False
        opened_here = closed < len(self._scene.opened)
        return not opened_here or columns(self._scene.following[0]) == columns(self._scene.line)

    # Lines that end

    def _line_ends(self, at: int) -> Stop | None:
        stop = self._blank_line_ends(at) if not self._current(at).strip() else self._written_line_ends(at)
        self._line_start = at + 1
        return stop

    def _blank_line_ends(self, at: int) -> Stop | None:
        self._blank_lines += 1
        if self._blank_lines > MOST_BLANK_LINES:
            return Stop(StopReason.BLOCK if self._block else StopReason.LINE, self._kept())
        if self._block is not None:
            self._outline = self._outline_to(at)
        return None

    def _written_line_ends(self, at: int) -> Stop | None:
        self._blank_lines = 0
        self._lines.append(_Line(self._current(at), self._line_start, at))
        return self._reached_suffix() or self._repeats() or self._block_ends(at)

    def _block_ends(self, at: int) -> Stop | None:
        """The line is whole: does it open a block, go on in one, or end the suggestion?"""
        if self._block is None:
            self._block = self._opened()
            self._outline = self._outline_to(at)
            self._opened_depth = self._outline.depth
            return None if self._block else Stop(StopReason.LINE, at)
        self._outline = self._outline_to(at)
        if stop := self._word_ends(self._block, at):
            return stop
        whole = self._block.sign is Sign.BRACKET and self._outline.depth == 0
        return Stop(StopReason.BLOCK, at) if whole else None

    def _opened(self) -> Block | None:
        """The block that the last line opens, if there may be one."""
        if self._scene.literal or not self._scene.rest_closes:
            return None
        block = self._block_at(self._lines[-1])
        return block if block and self._scene.body_missing(block.indent) else None

    def _block_at(self, line: _Line) -> Block | None:
        return self._scene.block_at(self.text[: line.end], line.end)

    def _outline_to(self, at: int) -> Outline:
        if self._block is None:
            return Outline(0, "", literal=False)
        return outline(self._scene.leaves(self.text[:at], self._block.start, at))

    def _word_ends(self, block: Block, at: int) -> Stop | None:
        """Does the last line end the block with a word, or stand behind the block as none of its words?"""
        line = self._lines[-1]
        if block.words is None or columns(line.text) > block.indent:
            return None
        word = _first_word(line.text)
        if word in block.words.end and self._line_stands_behind(word, block.indent):
            return Stop(StopReason.BLOCK, self._kept_before(1))
        if block.sign is not Sign.WORD or word in block.words.middle:
            return None
        return Stop(StopReason.BLOCK, at if word in block.words.end else self._kept_before(1))

    def _line_stands_behind(self, word: str, indent: int) -> bool:
        """Whether the next line behind the cursor begins with this word at this column."""
        return any(_first_word(line) == word and columns(line) == indent for line in self._scene.following[:1])

    def _kept_before(self, lines: int) -> int:
        """The end of what was written before the last `lines` lines."""
        return self._lines[-lines - 1].end if len(self._lines) > lines else 0

    def _reached_suffix(self) -> Stop | None:
        """One telling line, or two lines, that stand behind the cursor just so."""
        written = [line.text.rstrip() for line in self._lines[-2:]]
        behind = [line.rstrip() for line in self._scene.following[:2]]
        if written[-1:] == behind[:1] and telling(written[-1]):
            return Stop(StopReason.SUFFIX, self._kept_before(1))
        if len(written) == 2 and written == behind:
            return Stop(StopReason.SUFFIX, self._kept_before(2))
        return None

    def _repeats(self) -> Stop | None:
        before = [line.rstrip() for line in self._scene.preceding]
        lines = before + [line.text.rstrip() for line in self._lines]
        for length, times in CYCLES:
            cycle = lines[-length:]
            if lines[-length * times :] == cycle * times and any(map(telling, cycle)):
                return Stop(StopReason.REPETITION, self._kept_before(length * (times - 1)))
        return None

    def _runs_in_circles(self, at: int) -> bool:
        line = self.text[self._line_start : at + 1]
        if line.endswith("(") and NESTED.search(line):
            return True
        looks = len(line) >= LEAST_LOOP and (at - self._line_start) % LOOP_CHECK == 0
        return looks and any(starmap(partial(_loops, line), LOOPS))

    # The end

    def _end_of_text(self) -> Stop | None:
        at = len(self.text)
        if not self._current(at).strip():
            return None
        self._lines.append(_Line(self._current(at), self._line_start, at))
        return self._reached_suffix() or self._repeats()

    def _whole(self, reason: StopReason) -> int:
        if reason is StopReason.CANCELLED:
            return 0
        if reason is StopReason.END_OF_TEXT:
            return len(self.text)
        return self._end_of_whole_lines() or (0 if reason is StopReason.DEADLINE else len(self.text))

    def _end_of_whole_lines(self) -> int:
        """Behind the last line at which no bracket is open within the block and no block was just opened; behind the
        first line where there is none."""
        block, lines = self._block, list(self._lines)
        leaves = self._scene.leaves(self.text, block.start, len(self.text)) if block else ()

        def is_open(line: _Line) -> bool:
            written = outline([leaf for leaf in leaves if leaf.end <= line.end])
            return written.depth > self._opened_depth or self._block_at(line) is not None

        while len(lines) > 1 and is_open(lines[-1]):
            lines.pop()
        return lines[-1].end if lines else 0


def _first_word(line: str) -> str:
    found = re.match(r"\s*(\w*)", line)
    return found[1] if found else ""


def _loops(line: str, length: int, times: int) -> bool:
    """Whether the line ends with its last `length` code points so many times."""
    least = max(LEAST_LOOP, length * times)
    loop = line[-least:]
    return len(loop) == least and loop[length:] == loop[:-length] and any(map(str.isalnum, loop[-length:]))


def telling(line: str) -> bool:
    """Whether it is too long to stand somewhere a second time by chance."""
    return sum(map(str.isalnum, line)) >= TRIVIAL
