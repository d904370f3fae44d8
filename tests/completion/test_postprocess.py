"""What an edit does to the cursor's line, for any text, cursor and suggestion."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghostdraft.completion.brackets import left_open, open_between, unmatched_closers
from ghostdraft.completion.context import line_end
from ghostdraft.completion.postprocess import presentable
from ghostdraft.completion.scene import look
from ghostdraft.completion.syntax import Trees
from ghostdraft.completion.types import Budget, Snapshot, StopReason
from tests.completion.writing import completed, engine_for, scene_at
from tests.fakes import Never

PIECES = ["a", "b1", " ", "    ", "\n", "\r\n", "\t", "(", ")", "[", "]", "{", "}", ":", ";", ",", '"', "'", "é", "😀"]
TEXT = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
LANGUAGES = st.sampled_from(["python", "javascript", "ruby", "plaintext"])


def is_subsequence(part: str, whole: str) -> bool:
    characters = iter(whole)
    return all(char in characters for char in part)


@given(before=TEXT, behind=TEXT, writes=TEXT.map(lambda text: text.replace("\r\n", "\n")), language=LANGUAGES)
@settings(max_examples=400)
def test_an_edit_keeps_what_stands_around_the_cursor(before: str, behind: str, writes: str, language: str) -> None:
    before = before.rstrip("\r")
    snapshot = Snapshot("file:///a", 1, language, before + behind, len(before))
    scene = look(snapshot, Trees())
    insert = presentable(writes, scene, ())
    end = line_end(snapshot.text, snapshot.cursor)
    rest = snapshot.text[snapshot.cursor : end]
    if insert.over_rest:
        assert is_subsequence(rest, insert.text)
    assert not insert.text or insert.text.strip()
    assert "\n" not in insert.text.replace(scene.eol, "")


@given(before=TEXT, behind=TEXT, writes=TEXT.map(lambda text: text.replace("\r\n", "\n")), language=LANGUAGES)
@settings(max_examples=100)
def test_an_answer_is_an_edit_of_one_line(before: str, behind: str, writes: str, language: str) -> None:
    marked = before.rstrip("\r") + "¦" + behind
    engine, snapshot = engine_for(marked, writes, language)
    completion = engine.complete(snapshot, Budget(64), Never())
    assert completion.start == snapshot.cursor
    assert completion.end in (snapshot.cursor, line_end(snapshot.text, snapshot.cursor))
    if completion.end > completion.start:
        assert is_subsequence(snapshot.text[completion.start : completion.end], completion.text)


@pytest.mark.parametrize(
    ("marked", "writes", "text", "over_rest"),
    [
        ("f(¦)", "a", "a", False),
        ("f(¦)", "a)", "a)", True),
        ("f(¦)", "a) + b", "a) + b", True),
        ("f(¦)", ")", "", False),
        ("f(¦))", "a)", "a))", True),
        ("f[¦]", "a)", "a)", False),
        ("f(¦);", "a); // b", "a); // b", True),
        ("x = [¦],", "a, b],", "a, b],", True),
        ("x = [a, ¦,", "b, c", "b, c", False),
        ("x = ¦b", "a + b", "a + b", True),
        ("x = ¦b", "ab", "ab", False),
        ("x = ¦bar(y)", "foo + bar(", "foo + bar(y)", True),
        ("x = ¦bar(y)", "foo + ", "foo + ", False),
        ("return ¦ # note", "x", "x", False),
        ("f(¦)  ", "a)", "a)  ", True),
        ("f( ¦ )", "a )", "a", False),
        ("f( ¦ )", "a", "a", False),
        ("f('¦')", "a'", "a')", True),
        ("f('¦')", "a', 'b", "a', 'b", False),
        ("x = [f(a¦)\n     for a in abc\n     if a]", ", c) for a in abc if a]", ", c)", True),
        ("x = [f(¦\n     for a in abc]", "a) for a  in abc]", "a)", False),
        ("x = f(¦,\n      second)", "first, second)", "first,", True),
        ("x = f(¦,\n      second)", " second)", "", False),
        ("x = [1,¦\n     1]", " 1]", " 1]", False),
        ("x = ¦\nsecond", "first + second", "first + second", False),
        ("if a:\n¦    ", "    b", "    b", True),
        ("if a:\n¦\t", "\tb", "\tb", True),
        ("if a:\n    ¦    ", "b", "b", False),
    ],
)
def test_what_is_replaced(marked: str, writes: str, text: str, over_rest: bool) -> None:
    insert = presentable(writes, scene_at(marked), ())
    assert (insert.text, insert.over_rest) == (text, over_rest)


SPOILING = [
    ("python", "lastelt = ¦heap.pop()\n", "heap[0]"),
    ("python", "class A:\n    def ¦push(self, item):\n        pass\n", "peek(self):"),
    ("python", 'print("naïve¦", 名前)\n', ' Fläche:", fläche(größe))'),
    ("python", "for emoj¦ in emojis:\n    pass\n", "i)"),
    ("typescript", "const last = ¦heap.pop();\n", "heap[0]"),
    ("go", "package a\n\nfunc f() {\n\tx := ¦heap.Pop()\n}\n", "heap[0]"),
    ("rust", "fn f() {\n    let x = ¦heap.pop();\n}\n", "heap[0]"),
    ("c", "int f(void) {\n  return ¦g(1);\n}\n", "a[0]"),
]
SPARING = [
    ("python", "f(¦b, c)\n", "a, "),
    ("python", "if ¦x == 3:\n    pass\n", "not "),
    ("python", "def (:\nx = f(¦b)\n", "a, "),  # broken before, and elsewhere
    ("python", "x = ¦ + b\n", "a"),  # mended by it
    ("python", 's = "the ¦ dog" + t\n', "brown"),
    ("typescript", "const x = ¦heap.pop();\n", "y ?? "),
    ("go", "package a\n\nfunc f() {\n\tg(¦b)\n}\n", "a, "),
    ("rust", "fn f() {\n    g(¦b);\n}\n", "&a, "),
    ("c", "int f(void) {\n  return ¦g(1);\n}\n", "-"),
    ("plaintext", "the ¦dog\n", "brown)"),
]


@pytest.mark.parametrize(("language", "marked", "writes"), SPOILING)
def test_what_spoils_the_rest_of_its_line_is_held_back(language: str, marked: str, writes: str) -> None:
    assert completed(marked, writes + "\n", language_id=language).stop_reason is StopReason.EMPTY


@pytest.mark.parametrize(("language", "marked", "writes"), SPARING)
def test_what_the_rest_of_its_line_goes_on_from_is_shown(language: str, marked: str, writes: str) -> None:
    assert completed(marked, writes, language_id=language).text.rstrip() == writes.rstrip()


@pytest.mark.parametrize(
    ("text", "opened", "found"),
    [
        ("a)", "", ")"),
        ("(a))", "", ")"),
        ("[a], b] }", "", "]}"),
        ("')' + a)", "", ")"),
        ("a' + b)", "'", "')"),
        (r"a\' b'", "'", "'"),
        ("it's)", "", ")"),
        ("f'{a}')", "", ")"),
        ("a} {b} `)", "(`{", "}`)"),
        ("a} ${b[`]`]} `)", "(`{", "}`)"),
        ("x: &'a T)", "", ")"),
    ],
)
def test_closers_of_what_was_opened_before(text: str, opened: str, found: str) -> None:
    assert "".join(text[place] for place in unmatched_closers(text, opened)) == found


@pytest.mark.parametrize(
    ("line", "opened"),
    [
        ("f(a[", "(["),
        ("f(a)", ""),
        ("f('(", "('"),
        ('f("a", "', '("'),
        ("# it's (", "("),
        ("r'x", "'"),
        ('"""doc', '"'),
        ('"""doc"""', ""),
        ('f("a {b', '("'),
        ("f(`a ${b[", "(`${["),
        ("f(`a ${b} c", "(`"),
        ("f('a ${b", "('"),
    ],
)
def test_what_a_line_leaves_open(line: str, opened: str) -> None:
    assert "".join(left_open(line)) == opened


@pytest.mark.parametrize(
    ("line", "rest", "opened"),
    [
        ('f("a {b', '}")', '("{'),
        ('f("a {b', '")', '("'),
        ('f("a {b', " } c", '("{'),
        ("f(\"(a {b['", "']}\")", "(\"{['"),
        ("f('{' + b[", "])", "(["),
    ],
)
def test_a_bracket_in_a_string_is_open_where_the_rest_closes_it(line: str, rest: str, opened: str) -> None:
    assert "".join(open_between(line, rest)) == opened
