"""Incremental parses against fresh ones, code points against bytes, and bounded memory."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghostdraft.completion import syntax
from ghostdraft.completion.syntax import GRAMMARS, LANGUAGES_BY_SUFFIX, Branch, Literal, Syntax, Trees, applied
from ghostdraft.completion.types import Edit, Snapshot

PYTHON = '''class Ä:
    """Says "é😀"."""
    def f(self, a, b=[1, 2]):  # note {
        if a:
            return {"k": f"{b}é"}
        for x in b:
            yield x

async def g():
    await h("""x
y""")
'''
JAVASCRIPT = """export function f(a) {
  const s = `é ${a} {`; // 😀 {
  if (/[{]/.test(s)) { return '}'; } else { g(() => [a, 1]); }
  return { a, b: s };
}
"""
PIECES = ["", "x", "\n", "\n    ", "é", "😀", "{", "}", "(", ")", '"', "'''", "# c\n", "if y:\n    ", chr(0xD83D), "`"]
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES)), max_size=5)


def edits_of(text: str, drawn: list[tuple[float, int, str]]) -> list[Edit]:
    edits = []
    for where, length, piece in drawn:
        start = int(where * len(text))
        edit = Edit(start, min(len(text), start + length), piece)
        text = applied(text, edit)
        edits.append(edit)
    return edits


def snapshot(text: str, edits: tuple[Edit, ...] | None = None, uri: str = "file:///a") -> Snapshot:
    return Snapshot(uri, 1, "python", text, 0, edits)


@pytest.mark.parametrize(("language", "text"), [("python", PYTHON), ("javascript", JAVASCRIPT)])
@given(drawn=EDITS)
@settings(max_examples=150)
def test_an_incremental_parse_equals_a_fresh_one(language: str, text: str, drawn: list[tuple[float, int, str]]) -> None:
    """Of a text with errors the two may differ in how they recover; their texts and extents never do."""
    edits = edits_of(text, drawn)
    incremental = Syntax.parsed(text, language).edited(edits)
    fresh = Syntax.parsed(incremental.text, language)
    assert incremental.tree.root_node.end_byte == fresh.tree.root_node.end_byte
    if not fresh.tree.root_node.has_error:
        assert str(incremental.tree.root_node) == str(fresh.tree.root_node)
        size = len(fresh.text)
        assert list(incremental.leaves_before(size)) == list(fresh.leaves_before(size))


@given(drawn=EDITS, chained=st.booleans())
@settings(max_examples=100)
def test_trees_follow_a_document_with_or_without_its_edits(drawn: list[tuple[float, int, str]], chained: bool) -> None:
    trees = Trees()
    trees.parse(snapshot(PYTHON))
    edits = edits_of(PYTHON, drawn)
    text = PYTHON
    for edit in edits:
        text = applied(text, edit)
    known = trees.parse(snapshot(text, tuple(edits) if chained else None))
    assert known.text == text


@given(st.text("ab\n", max_size=12), st.text("ab\n", max_size=12))
def test_the_difference_of_two_texts_leads_from_one_to_the_other(old: str, new: str) -> None:
    edit = syntax.difference(old, new)
    assert applied(old, edit) == new
    assert len(edit.text) <= len(new)


def test_leaves_are_in_code_points() -> None:
    leaves = list(Syntax.parsed(PYTHON, "python").leaves_before(len(PYTHON)))
    named = {PYTHON[leaf.start : leaf.end] for leaf in leaves}
    assert {"class", "Ä", 'Says "é😀".', "# note {", "yield"} <= named


def test_leaves_before_a_place_end_there_and_come_from_the_last_one_on() -> None:
    parsed = Syntax.parsed(PYTHON, "python")
    everything = list(parsed.leaves_before(len(PYTHON)))
    assert everything == sorted(everything, key=lambda leaf: leaf.start, reverse=True)
    for end in range(len(PYTHON)):
        assert list(parsed.leaves_before(end)) == [leaf for leaf in everything if leaf.end <= end]


@pytest.mark.parametrize(
    ("marked", "literal"),
    [
        ('x = "a¦b"\n', Literal.STRING),
        ('x = ¦"ab"\n', None),
        ('x = "ab"¦\n', None),
        ("x = 1  # ab¦\n", Literal.COMMENT),
        ("x = 1  ¦# ab\n", None),
        ('def f():\n    """é\n    ¦\n    """\n', Literal.STRING),
        ("x = ¦1\n", None),
        ("¦", None),
    ],
)
def test_strings_and_comments_are_known(marked: str, literal: Literal | None) -> None:
    before, _, behind = marked.partition("¦")
    assert Syntax.parsed(before + behind, "python").literal(len(before)) is literal


def test_a_branch_grows_and_is_cut_back() -> None:
    before = "x = 1\ndef é(a):\n"
    branch = Branch(Syntax.parsed(before + ")))\n", "python"), len(before))

    def words(suggestion: str) -> list[str]:
        text = before + suggestion
        leaves = [*branch.leaves_before(suggestion, len(suggestion))][::-1]
        return [text[len(before) + leaf.start : len(before) + leaf.end] for leaf in leaves]

    header = ["x", "=", "1", "def", "é", "(", "a", ")", ":"]
    assert words("") == header
    assert words("    if ü:\n") == [*header, "if", "ü", ":"]
    assert words("    if ü:\n        pass") == [*header, "if", "ü", ":", "pass"]
    assert words("    y") == [*header, "y"]


@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_every_grammar_loads_and_takes_any_text(language: str) -> None:
    text = f"é {chr(0xD83D)} {{ ( \0 \"' \n\t x"
    parsed = Syntax.parsed(text, language)
    list(parsed.leaves_before(len(text)))
    parsed.literal(3)
    list(Branch(parsed, 5).leaves_before("y\n", 2))


def test_every_suffix_has_a_grammar() -> None:
    assert set(LANGUAGES_BY_SUFFIX.values()) <= set(GRAMMARS)
    assert syntax.language_of("/a/b.TSX") == "typescriptreact"
    assert syntax.language_of("/a/Makefile") == "plaintext"


def test_memory_is_bounded_whatever_is_opened() -> None:
    trees = Trees(capacity=4)
    for i in range(20):
        trees.parse(snapshot(PYTHON, uri=f"file:///{i}"))
    assert len(trees) == 4
    assert trees.read(Snapshot("file:///b", 1, "unknown", "x", 0)) is None


def test_the_trees_of_long_documents_are_few() -> None:
    trees, text = Trees(most=1000), "x = 1\n" * 50
    for i in range(20):
        trees.parse(snapshot(text, uri=f"file:///{i}"))
        assert len(trees) == min(i + 1, 1000 // len(text))
    assert trees.parse(snapshot(text * 10, uri="file:///long")) is not None
    assert len(trees) == 1
    trees.parse(snapshot("x", uri="file:///short"))
    assert len(trees) == 1


def test_a_long_document_is_parsed_around_the_cursor_only() -> None:
    line = "x = (1, 'é')\n"
    text = line * (3 * syntax.MOST_BEFORE // len(line))
    cursor = len(line) * (len(text) // len(line) // 2)
    long = Snapshot("file:///a", 1, "python", text, cursor)
    part = syntax.excerpt(long)
    assert len(part.text) <= syntax.MOST_BEFORE + syntax.MOST_BEHIND
    assert part.text[: part.cursor].endswith(line)
    assert part.text[part.cursor :].startswith(line)
    assert syntax.excerpt(snapshot(PYTHON)) == snapshot(PYTHON)


def test_what_did_not_change_is_not_parsed_again() -> None:
    trees = Trees()
    assert trees.parse(snapshot(PYTHON)) is trees.parse(snapshot(PYTHON))


def test_an_open_bracket_costs_no_parse_of_the_whole_file() -> None:
    """All that stands behind it is in doubt then."""
    trees, behind = Trees(), "def f(a):\n    return [a, (a + 1) * 2]\n\n" * 20_000
    trees.parse(syntax.excerpt(Snapshot("file:///a", 1, "python", "\n" + behind, 0)))
    started = time.thread_time()
    for typed in ("x = [", "x = [y", "x = [y[", "x = [y[0"):
        trees.parse(syntax.excerpt(Snapshot("file:///a", 1, "python", typed + "\n" + behind, len(typed))))
    assert time.thread_time() - started < 0.2


def test_grammars_are_imported_when_they_are_needed() -> None:
    code = "import sys, ghostdraft.completion.engine; print([m for m in sys.modules if m.startswith('tree_sitter_')])"
    shown = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
