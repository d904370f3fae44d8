"""The document store against a plain reference, and its speed on a large file."""

from __future__ import annotations

import random
import re
import time
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.types import Edit
from ghostdraft.lsp_server import convert
from ghostdraft.lsp_server.documents import (
    MAX_LOGGED_EDITS,
    MOST_LEFT,
    Document,
    Documents,
    Point,
    UnknownDocument,
    split_lines,
)
from ghostdraft.lsp_server.protocol import ContentChange, Position, Range

WHITE = [" ", "\t", "\n", "\r\n", "\r", "\u2028", "\u0085", "\f", "\v", "\x1c", "\ufeff"]
MARKS = ["a", "b", "é", "e\u0301", "Ж", "😀", "\U0001f469\u200d\U0001f467", "\U00010000", "\uffff"]
ALPHABET = WHITE + MARKS
LARGE = [
    "    value = compute(value, other)  # the usual line of code here, some 80 long\n",
    "    д = вычислить(д, 😀)  # and one that is not ASCII, whose text is four bytes a character\n",
]
ENCODINGS = ["utf-8", "utf-16", "utf-32"]
EDITS_PER_ENCODING = 34_000
UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
CODEC = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


class Reference:
    """The plainest store that can be right: one string, scanned from its start for every position."""

    def __init__(self, text: str, encoding: str) -> None:
        self.text = text
        self.encoding = encoding

    def offset(self, line: int, units: int) -> int:
        starts = [0] + [found.end() for found in re.finditer(r"\r\n|\r|\n", self.text)]
        if line >= len(starts):
            return len(self.text)
        offset, used = starts[line], 0
        while offset < len(self.text) and self.text[offset] not in "\r\n":
            used += len(self.text[offset].encode(CODEC[self.encoding])) // UNIT_BYTES[self.encoding]
            if used > units:
                break
            offset += 1
        return offset

    def edit(self, start: tuple[int, int], end: tuple[int, int], text: str) -> Edit:
        a, b = sorted((self.offset(*start), self.offset(*end)))
        self.text = self.text[:a] + text + self.text[b:]
        return Edit(a, b, text)


def apply(document: Document, start: tuple[int, int], end: tuple[int, int], text: str, encoding: str) -> None:
    convert.change(document, ContentChange(text, Range(Position(*start), Position(*end))), encoding)


def random_text(rng: random.Random, pieces: int) -> str:
    return "".join(rng.choices(ALPHABET, k=rng.randrange(pieces + 1)))


def random_position(rng: random.Random, document: Document) -> tuple[int, int]:
    """Mostly inside the document, at any unit, inside characters too; now and then far outside."""
    line = rng.randrange(document.line_count + 2)
    return line, rng.randrange(24) if rng.random() < 0.95 else 10**6


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_equals_a_plain_reference_over_random_edits(encoding: str) -> None:
    rng = random.Random(f"documents {encoding}")
    for _ in range(EDITS_PER_ENCODING // 200):
        text = random_text(rng, 30) if rng.random() < 0.9 else ""
        document, reference = Document("file:///a", "python", 0, text), Reference(text, encoding)
        for step in range(200):
            if rng.random() < 0.01:
                text = random_text(rng, 30)
                document.replace(text)
                reference.text = text
            start = random_position(rng, document)
            end = random_position(rng, document) if rng.random() < 0.5 else (start[0], start[1] + rng.randrange(4))
            inserted = random_text(rng, 5)
            expected = reference.edit(start, end, inserted)
            apply(document, start, end, inserted, encoding)
            assert document.text == reference.text
            assert document._log[-1] == expected
            if step % 50 == 0:
                assert document._lines == split_lines(reference.text)


@given(st.text(alphabet=st.sampled_from("ab\r\n\u2028\f😀")))
def test_lines_end_at_newline_carriage_return_and_both_only(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert [line.rstrip("\r\n") for line in lines] == re.split(r"\r\n|\r|\n", text)


@given(st.text(), st.integers(0, 40), st.sampled_from(ENCODINGS))
def test_columns_and_units_are_inverse(line: str, column: int, encoding: str) -> None:
    column = min(column, len(line))
    assert convert.column_of(line, convert.units_of(line, column, encoding), encoding) == column


@pytest.mark.parametrize(("units", "column"), [(-1, 0), (0, 0), (1, 1), (2, 1), (3, 2), (4, 3), (99, 3)])
def test_a_unit_inside_a_surrogate_pair_means_the_character(units: int, column: int) -> None:
    assert convert.column_of("a😀b", units, "utf-16") == column


def test_half_a_surrogate_pair_is_replaced_and_keeps_its_width() -> None:
    document = Document("file:///a", "python", 0, "x\ud83dy")
    document.edit(Point(0, 3), Point(0, 3), "\ude00")
    assert document.text == "x\ufffdy\ufffd"


def replay(text: str, edits: tuple[Edit, ...]) -> str:
    for edit in edits:
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def test_edits_lead_from_each_text_handed_out_to_the_next() -> None:
    rng = random.Random(7)
    document = Document("file:///a", "python", 0, random_text(rng, 60))
    assert document.hand_out(document.mark) is None
    before = document.text
    for _ in range(300):
        for _ in range(rng.randrange(4)):
            start, end = random_position(rng, document), random_position(rng, document)
            apply(document, start, end, random_text(rng, 3), "utf-16")
        text, mark = document.text, document.mark
        apply(document, random_position(rng, document), (0, 0), "later", "utf-16")
        edits = document.hand_out(mark)
        assert edits is not None
        assert replay(before, edits) == text
        before = text


def test_the_chain_of_edits_breaks_when_replaced_or_too_long() -> None:
    document = Document("file:///a", "python", 0, "a")
    document.hand_out(document.mark)
    old = document.mark
    document.replace("b")
    assert document.hand_out(old) is None
    assert document.hand_out(document.mark) is None
    for _ in range(MAX_LOGGED_EDITS + 1):
        document.edit(Point(0, 0), Point(0, 0), "x")
    assert len(document._log) <= MAX_LOGGED_EDITS
    assert document.hand_out(document.mark) is None
    document.edit(Point(0, 0), Point(0, 0), "x")
    assert document.hand_out(document.mark) == (Edit(0, 0, "x"),)


def test_other_documents_come_most_recently_edited_first() -> None:
    documents = Documents()
    for uri in ("a", "b", "c"):
        documents.open(uri, "python", 0, uri)
    documents.touch("a")
    assert [document.uri for document in documents.others("b")] == ["a", "c"]
    documents.close("c")
    with pytest.raises(UnknownDocument, match="didOpen"):
        documents.get("c")


def test_where_the_user_was_in_documents_closed_long_ago_is_forgotten() -> None:
    documents = Documents()
    for number in range(MOST_LEFT + 1):
        documents.open(f"file:///{number}", "python", 1, "text").cursor = 3
        documents.close(f"file:///{number}")
    assert documents.open("file:///0", "python", 1, "text").cursor is None
    assert documents.open("file:///1", "python", 1, "text").cursor == 3


@pytest.mark.parametrize("line", LARGE)
def test_an_edit_and_a_snapshot_of_a_large_file_take_under_five_milliseconds(line: str) -> None:
    document = Document("file:///a", "python", 0, line * 16_000)
    taken = []
    for step in range(40):
        start = time.process_time()
        place = (8_000 + step * 7 % 4000, 4 + step % 8)
        apply(document, place, place, "x", "utf-16")
        assert len(document.text) == 16_000 * len(line) + step + 1
        taken.append(time.process_time() - start)
    assert median(taken) < 0.005


def test_while_one_types_in_a_line_the_others_are_not_joined_again() -> None:
    document, sides = Document("file:///a", "python", 0, "é\r\n" * 9), list[object]()
    for column, key in enumerate("é = 1"):
        document.edit(Point(4, column), Point(4, column), key)
        assert document.text == "é\r\n" * 4 + "é = 1"[: column + 1] + "é\r\n" * 5
        sides.append(document._sides)
    assert sides[0] is None
    assert sides[1] is not None
    assert all(one is sides[1] for one in sides[1:])
    document.edit(Point(2, 0), Point(2, 1), "")
    document.edit(Point(2, 0), Point(2, 0), "x")
    assert document.text == "é\r\n" * 2 + "x\r\n" + "é\r\n" + "é = 1é\r\n" + "é\r\n" * 4
