"""Stop rules: where each ends a suggestion, and that it does not matter in which pieces the suggestion comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghostdraft.completion.stopping import Stop, Stopper
from ghostdraft.completion.types import StopReason
from tests.completion.writing import scene_at

PIECES = ["a", "b", " ", "    ", "\n", "\n    ", "\n        ", "(", ")", "{", "}", ":", "if x:", '"', "é", "#", "end"]
CODE = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
MARKED = [
    ("def f(x):¦\n\ny = 1\n", "python"),
    ("def f(x):\n    ¦\n", "python"),
    ("def f(x):\n    return 1\n    ¦\n    return 2\n", "python"),
    ("x = foo(¦)\n", "python"),
    ("function f() {\n    ¦\n}\n", "javascript"),
    ("if (x) {¦}\n", "c"),
    ("def f\n    ¦\nend\n", "ruby"),
    ("anything ¦\n", "plaintext"),
]


def stopped(marked: str, text: str, language: str = "python") -> tuple[str, StopReason]:
    """What is kept of `text`, and why, where the model ends it there."""
    stopper = Stopper(scene_at(marked, language))
    stop = stopper.feed(text) or stopper.close(StopReason.END_OF_TEXT)
    return text[: stop.keep], stop.reason


@pytest.mark.parametrize(("marked", "language"), MARKED)
@given(text=CODE, cuts=st.lists(st.integers(0, 60), max_size=6))
@settings(max_examples=60)
def test_pieces_do_not_matter(marked: str, language: str, text: str, cuts: list[int]) -> None:
    scene = scene_at(marked, language)
    at_once, in_pieces = Stopper(scene), Stopper(scene)
    whole = at_once.feed(text)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    stops = [in_pieces.feed(text[start:end]) for start, end in pairwise(places)]
    assert stops[-1] == whole
    assert len({stop for stop in stops if stop}) <= 1
    for reason in (StopReason.END_OF_TEXT, StopReason.DEADLINE, StopReason.MAX_TOKENS):
        assert in_pieces.close(reason) == at_once.close(reason)


@pytest.mark.parametrize(("marked", "language"), MARKED)
@given(text=CODE, more=CODE)
@settings(max_examples=60)
def test_a_stop_stands_whatever_follows(marked: str, language: str, text: str, more: str) -> None:
    scene = scene_at(marked, language)
    stop = Stopper(scene).feed(text)
    if stop is not None:
        assert Stopper(scene).feed(text + more) == stop
        assert 0 <= stop.keep <= len(text)


@pytest.mark.parametrize(
    ("marked", "writes", "kept", "reason", "language"),
    [
        # a line that opens no block
        ("x = ¦\n", "1\ny = 2\n", "1", StopReason.LINE, "python"),
        ("x = 1¦\n", "\ny = 2\n", "", StopReason.LINE, "python"),
        ("¦\n", "\n\ndef f():\n    pass\n\nx", "\n\ndef f():\n    pass", StopReason.BLOCK, "python"),
        ("x = {'a': ¦}\n", "[1,\n", "[1,\n", StopReason.END_OF_TEXT, "python"),
        # a block by its indentation
        ("if x¦\n", ":\n    y\n    z\n\nw\n", ":\n    y\n    z", StopReason.BLOCK, "python"),
        ("if x:¦\n", "\n    y(\n1)\n    z\nelse:", "\n    y(\n1)\n    z", StopReason.BLOCK, "python"),
        ("if x:¦\n", '\n    y = """\nz\n"""\n    z\nw', '\n    y = """\nz\n"""\n    z', StopReason.BLOCK, "python"),
        ("class A:\n    def f(self):\n        ¦\n", "a\n        b\n    c", "a\n        b", StopReason.BLOCK, "python"),
        ("def f():  # note\n    ¦\n", "a\n    b\nc", "a\n    b", StopReason.BLOCK, "python"),
        ('def f():\n    """Doc.\n    If:\n    """\n    ¦\n', "a\n    b\nc", "a\n    b", StopReason.BLOCK, "python"),
        ("def f(a,\n      b):\n    ¦\n", "c\n    d\ne", "c\n    d", StopReason.BLOCK, "python"),
        ("def f(a,\n      b=[1,\n         2])¦\n", ":\n    c\nd", ":\n    c", StopReason.BLOCK, "python"),
        ("if f(\n    a\n):¦\nb\n", "\n    c\nd", "\n    c", StopReason.BLOCK, "python"),
        # none, where the line only looks as if it opened one
        ("x = lambda¦\n", ": 0  # :\ny", ": 0  # :", StopReason.LINE, "python"),
        ("# if x¦\n", ":\n# y\n", ":", StopReason.LINE, "python"),
        ('x = "if y¦"\n', ':"\n    y\n', ':"', StopReason.LINE, "python"),
        ("if x¦:\n    y\n", ":\n    z\n", ":", StopReason.LINE, "python"),
        ("def f(¦):\n    return 1\n", "x):\n    return x\n", "x):", StopReason.LINE, "python"),
        # a block by its bracket
        ("if (x) {¦\n", "\n  y();\n}\nz();", "\n  y();\n}", StopReason.BLOCK, "javascript"),
        ("if (x) {¦\n", "\n  y();\n} else {\n  z();\n}\n", "\n  y();\n} else {\n  z();\n}", StopReason.BLOCK, "c"),
        ("f(() => {¦\n", "\n  y('}');\n});\nw", "\n  y('}');\n});", StopReason.BLOCK, "javascript"),
        ("f(() => {¦\n});\n", "\n  g({\n    a\n  });\n});", "\n  g({\n    a\n  });", StopReason.BLOCK, "typescript"),
        ("x = [¦\n", "\n  1,\n  2,\n]\ny", "\n  1,\n  2,\n]", StopReason.BLOCK, "python"),
        ("fn f<'a>(x: &'a str) {¦\n", "\n    g('{');\n}\nfn", "\n    g('{');\n}", StopReason.BLOCK, "rust"),
        ("switch x {¦\n", "\ncase 1:\n\ty()\n}\nz", "\ncase 1:\n\ty()\n}", StopReason.BLOCK, "go"),
        ("int f(int a,\n      int b) {¦\n}\n", "\n  c();\n}\n", "\n  c();", StopReason.BLOCK, "c"),
        # a block by its words
        ("def f¦\n", "\n  if x\n    y\n  end\nend\nz\n", "\n  if x\n    y\n  end\nend", StopReason.BLOCK, "ruby"),
        ("if x then¦\n", "\n  y()\nelse\n  z()\nend\nw\n", "\n  y()\nelse\n  z()\nend", StopReason.BLOCK, "lua"),
        ("f(function()¦\nend, 1)\n", "\n  g()\nend)\n", "\n  g()", StopReason.BLOCK, "lua"),
        ("f(function()¦\n", "\n  g()\nend)\nh", "\n  g()\nend)", StopReason.BLOCK, "lua"),
        ("for i in a; do¦\n", "\n  echo $i\ndone\nx\n", "\n  echo $i\ndone", StopReason.BLOCK, "shellscript"),
        # without a grammar, and in languages without a rule: lines
        ("if x {¦\n", "\n  y\n}\n", "", StopReason.LINE, "plaintext"),
        ("<ul>¦\n", "\n<li>\n", "", StopReason.LINE, "html"),
        # the next closer stands behind the cursor
        ("x = [a, ¦, b]\n", "c]\n", "c", StopReason.BRACKET, "python"),
        ("f(\n    ¦\n)\n", "a)\n", "a", StopReason.BRACKET, "plaintext"),
        ("x = f(¦\n)\n", "a)\n", "a", StopReason.BRACKET, "plaintext"),
        ("{\n  x = f(¦\n}\n", "a)\n", "a)", StopReason.LINE, "plaintext"),
        ("if a in ('5', '¦):  # b\n", "6', '7'):  # c\n", "6', '7'", StopReason.BRACKET, "python"),
        ("f(`a${¦}`) // b\n", "x}`) // c\n", "x", StopReason.BRACKET, "javascript"),
        ("f(`¦) // b\n", "x`) // c\n", "x`", StopReason.BRACKET, "javascript"),
        ('"""It (¦ b"""\n', "a) c\n", "a) c", StopReason.LINE, "python"),
        # what follows
        ("def f():\n    ¦\n    return x\n", "y = 1\n    return x", "y = 1", StopReason.LINE, "python"),
        ("def f():\n    ¦\n    return x\n", "return x", "", StopReason.SUFFIX, "python"),
        ("{\n  ¦\n  b();\n  }\n}\n", "{\n  b();\n  }\n", "{", StopReason.LINE, "plaintext"),
        ("if (a) {¦\n}\nnext();\n", "\n  x();\n  y();\n}\nnext();\n", "\n  x();\n  y();", StopReason.BLOCK, "c"),
        # repetition
        ("aaaa()\naaaa()\n¦\n", "aaaa()\n", "", StopReason.REPETITION, "python"),
        ("x = ¦\n", "0, 1, " * 30, "", StopReason.REPETITION, "python"),
        ("x = ¦\n", '"😀"; z = "😀"; w = "😀😀"; x = x + "😀"; y = y + ' * 4, "", StopReason.REPETITION, "python"),
        ("n = ¦\n", "count(&strcpy_s(strcpy_s(strcpy_s(a", "", StopReason.REPETITION, "c"),
        ("n = ¦\n", "text(text(a), text(text(b)))\n", "text(text(a), text(text(b)))", StopReason.LINE, "c"),
        ("n = ¦\n", "f(f(f(f(x))))\n", "f(f(f(f(x))))", StopReason.LINE, "c"),
        ("n = ¦\n", "a.b.c.d + a.a.a.a\n", "a.b.c.d + a.a.a.a", StopReason.LINE, "c"),
        ("x = [¦]\n", "0, 0, 0, 0, 0, 0]\n", "0, 0, 0, 0, 0, 0]", StopReason.LINE, "python"),
        ("# ¦\n", "-" * 100 + "\n", "-" * 100, StopReason.LINE, "python"),
    ],
)  # fmt: skip
def test_where_each_rule_stops(marked: str, writes: str, kept: str, reason: StopReason, language: str) -> None:
    assert stopped(marked, writes, language) == (kept, reason)


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        (StopReason.DEADLINE, "\n    y = 1"),
        (StopReason.MAX_TOKENS, "\n    y = 1"),
        (StopReason.END_OF_TEXT, "\n    y = 1\n    z = "),
        (StopReason.CANCELLED, ""),
    ],
)
def test_what_is_kept_of_a_block_that_did_not_end(reason: StopReason, kept: str) -> None:
    stopper = Stopper(scene_at("if x:¦\n"))
    text = "\n    y = 1\n    z = "
    assert stopper.feed(text) is None
    assert stopper.close(reason) == Stop(reason, len(kept))


@pytest.mark.parametrize(
    ("reason", "kept"),
    [(StopReason.DEADLINE, ""), (StopReason.MAX_TOKENS, "foo(a, "), (StopReason.END_OF_TEXT, "foo(a, ")],
)
def test_what_is_kept_of_a_line_that_did_not_end(reason: StopReason, kept: str) -> None:
    stopper = Stopper(scene_at("x = ¦\n"))
    assert stopper.feed("foo(a, ") is None
    assert stopper.close(reason) == Stop(reason, len(kept))


@pytest.mark.parametrize("reason", [StopReason.DEADLINE, StopReason.MAX_TOKENS])
def test_a_block_that_did_not_end_ends_with_no_header(reason: StopReason) -> None:
    stopper = Stopper(scene_at("if x:¦\n"))
    assert stopper.feed("\n    y = 1\n    if z:\n        for w in (\n            ") is None
    assert stopper.close(reason).keep == len("\n    y = 1")
    stopper = Stopper(scene_at("¦\n"))
    assert stopper.feed("if x:\n    y") is None
    assert stopper.close(reason).keep == len("if x:")


def test_a_block_that_did_not_end_ends_with_no_half_statement() -> None:
    stopper = Stopper(scene_at("void f() {¦\n", "c"))
    assert stopper.feed("\n  a();\n  if (x &&\n      y) {\n    b();\n    c(1,\n") is None
    assert stopper.close(StopReason.MAX_TOKENS).keep == len("\n  a();")
