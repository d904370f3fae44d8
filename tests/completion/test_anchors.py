"""What goes wrong for the users of others: the edit is applied, and the text that results is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.context import DEFAULT_WINDOW, gather
from ghostdraft.completion.postprocess import indented
from ghostdraft.completion.prompt import Prompter
from ghostdraft.completion.types import Prompt, StopReason
from ghostdraft.models.types import FimTemplate
from tests.completion.writing import (
    PREFIX_FIRST,
    SUFFIX_FIRST,
    TOKENIZER,
    accepted,
    completed,
    scene_at,
    snapshot_at,
    spec_of,
)

DOC = """class A:
    def f(self):
        ¦

    def g(self):
        return self.x
"""


@pytest.mark.parametrize(
    ("marked", "writes", "expected", "language"),
    [
        ("x = numpy.array(¦)", "[1, 2, 3])", "x = numpy.array([1, 2, 3])¦", "python"),
        ("x = numpy.array(¦)\ny = 1\n", "[1, 2, 3])", "x = numpy.array([1, 2, 3])¦\ny = 1\n", "python"),
        ("x = f(g(¦))", "a, b)", "x = f(g(a, b))¦", "python"),
        ("x = f(g(¦))", "a))", "x = f(g(a))¦", "python"),
        ("x = f(¦)", "h(y)", "x = f(h(y)¦)", "python"),
        ("for (i = 0; i < ¦)", "n; i++) {", "for (i = 0; i < n; i++) {¦", "javascript"),
        ("s = '¦'", "abc'", "s = 'abc'¦", "python"),
        ('print("¦")', 'a, b")', 'print("a, b")¦', "python"),
        ('print("¦")', "it's", 'print("it\'s¦")', "python"),
        ("foo(¦);", "a, b);", "foo(a, b);¦", "javascript"),
        ("foo(¦);", "a, b)", "foo(a, b);¦", "javascript"),
        ("x = [a, ¦, b]", "c, b]", "x = [a, c, b]¦", "python"),
        ("x = [a, ¦, b]", "c", "x = [a, c¦, b]", "python"),
        ("y = foo(¦) + bar(x)", "a) + bar(x)", "y = foo(a¦) + bar(x)", "python"),
        ("def f(¦):\n    pass\n", "self, x):", "def f(self, x):¦\n    pass\n", "python"),
    ],
)
def test_a_closer_is_not_doubled(marked: str, writes: str, expected: str, language: str) -> None:
    assert accepted(marked, writes, language) == expected


@pytest.mark.parametrize(
    ("marked", "writes", "expected", "language"),
    [
        ("function f() {\n  ¦\n}\n", "return 1;\n}\n", "function f() {\n  return 1;¦\n}\n", "javascript"),
        ("function f() {¦\n}\n", "\n  return 1;\n}\n", "function f() {\n  return 1;¦\n}\n", "javascript"),
        ("x = foo(\n    a, ¦\n)\n", "b)\n", "x = foo(\n    a, b¦\n)\n", "python"),
        ("x = {\n    'a': ¦\n}\n", "1}\n", "x = {\n    'a': 1¦\n}\n", "python"),
        (
            "int f(int x) {\n    if (x) {¦\n}\n",
            "\n        g();\n    }\n}\n",
            "int f(int x) {\n    if (x) {\n        g();\n    }¦\n}\n",
            "c",
        ),
        ("def f\n  ¦\nend\n", "1\nend\n", "def f\n  1¦\nend\n", "ruby"),
    ],
)
def test_a_closer_that_stands_on_the_next_line_is_not_written_again(
    marked: str, writes: str, expected: str, language: str
) -> None:
    assert accepted(marked, writes, language) == expected


@pytest.mark.parametrize(
    ("marked", "writes", "expected", "language"),
    [
        ("f(x => {¦})", "\n  g(x);\n})", "f(x => {\n  g(x);\n})¦", "javascript"),
        ("f(¦)\n", "x):\n    pass\n", "f(x):\n    pass¦\n", "python"),
        ("f(g(¦))\n", "x):\n    pass\n", "f(g(x))¦\n", "python"),
        ("a = b ¦ or c\n", "and d\n    pass\n", "a = b and d¦ or c\n", "python"),
        ("a = b ¦or c\n", "if d:\n    pass\n", "a = b ¦or c\n", "python"),
        ("if (¦) {\n}\n", "x) {\n  y();\n", "if (x¦) {\n}\n", "javascript"),
    ],
)
def test_lines_before_a_rest_of_the_line_leave_no_stray_bracket(
    marked: str, writes: str, expected: str, language: str
) -> None:
    assert accepted(marked, writes, language) == expected


@pytest.mark.parametrize(
    ("marked", "writes", "expected"),
    [
        ("def f():\n    ¦\n    return x + 1\n", "return x + 1\n", "def f():\n    ¦\n    return x + 1\n"),
        (
            "def f():\n    ¦\n\ndef g():\n    pass\n",
            "return 1\n\ndef g():\n    pass\n",
            "def f():\n    return 1¦\n\ndef g():\n    pass\n",
        ),
        ("a = 1\n¦\nimport os\n", "import os\n", "a = 1\n¦\nimport os\n"),
    ],
)
def test_lines_that_follow_are_not_repeated(marked: str, writes: str, expected: str) -> None:
    assert accepted(marked, writes) == expected


def test_repeating_the_lines_that_follow_is_said() -> None:
    completion = completed("def f():\n    ¦\n    return x + 1\n", "return x + 1\n")
    assert (completion.text, completion.stop_reason) == ("", StopReason.SUFFIX)


@pytest.mark.parametrize("before", ["привет = 'é ö'; x = ", "😀👨‍👩‍👧 = ", "e\u0301 = ", "\U0001d54f = "])
def test_places_behind_any_character_are_right(before: str) -> None:
    assert accepted(f"{before}f(¦)\nz\n", "1, 'я😀')") == f"{before}f(1, 'я😀')¦\nz\n"


@pytest.mark.parametrize("cut", range(1, 4))
def test_half_a_character_is_never_shown(cut: int) -> None:
    writes = list(b"1 # ok ") + list("😀".encode())[:cut]
    assert completed("x = ¦\n", writes).text == "1 # ok"


@pytest.mark.parametrize("lone", [chr(0xD83D), chr(0xDE00), f"a{chr(0xD83D)}b"])
@pytest.mark.parametrize("language", ["python", "javascript", "plaintext"])
def test_half_a_surrogate_pair_around_the_cursor_does_no_harm(lone: str, language: str) -> None:
    assert accepted(f"s = '{lone}'\nx = ¦\n# {lone}\n", "1\n", language) == f"s = '{lone}'\nx = 1¦\n# {lone}\n"


def test_line_breaks_are_those_of_the_file() -> None:
    marked = DOC.replace("\n", "\r\n")
    result = accepted(marked, "self.x = 1\n        return 2\n\n    def g(self):\n")
    assert result == marked.replace("¦", "self.x = 1\r\n        return 2¦")
    assert "\n" not in result.replace("\r\n", "")


def test_in_a_mixed_file_the_line_decides() -> None:
    assert accepted("def f():¦\r\ny\nz\n", "\n    return 1\n") == "def f():\r\n    return 1¦\r\ny\nz\n"
    assert accepted("a\r\nb\r\ndef f():¦\ny\r\n", "\n    return 1\n") == "a\r\nb\r\ndef f():\n    return 1¦\ny\r\n"


def test_the_model_sees_one_kind_of_line_break() -> None:
    prompts = [_prompt(DOC.replace("\n", eol)) for eol in ("\n", "\r\n", "\r")]
    assert prompts[0] == prompts[1] == prompts[2]


def _prompt(marked: str) -> Prompt:
    spec = spec_of((SUFFIX_FIRST,))
    return Prompter(spec, TOKENIZER).build(gather(snapshot_at(marked), DEFAULT_WINDOW), 4)


def test_tabs_stay_tabs() -> None:
    marked = "func f() {\n\tfor {\n\t\t¦\n\t}\n}\n"
    assert accepted(marked, "if x {\n\t\t\treturn\n\t\t}\n", "go") == marked.replace(
        "¦", "if x {\n\t\t\treturn\n\t\t}¦"
    )


def test_blanks_in_a_file_of_tabs_become_tabs() -> None:
    marked = "func f() {\n\tfor {\n\t\tg()\n\t}\n}\n\nfunc h() {¦\n}\n"
    assert accepted(marked, "\n    if x {\n        g()\n    }\n}\n", "go") == marked.replace(
        "¦", "\n\tif x {\n\t\tg()\n\t}¦"
    )


ALIGNED = [
    ("", "\tf(a,\n\t    b)"),
    ("\t", "f(a,\n\t  b)\n\tg(a,\n\t  b)"),
    ("", "/**\n * doc\n */"),
    ("\t", "/**\n\t * doc\n\t */"),
    ("\tx =", " 1"),
    ("\tx", "    // note"),
    ("", " // note"),
]


@pytest.mark.parametrize(("line", "writes"), ALIGNED)
def test_in_a_file_of_tabs_blanks_that_align_stay_blanks(line: str, writes: str) -> None:
    assert indented(writes, scene_at(f"a {{\n\tb\n}}\n{line}¦\n", "go")) == writes


@given(st.lists(st.integers(0, 3), min_size=1), st.integers(2, 4), st.integers(0, 1))
def test_in_a_file_of_tabs_a_level_of_blanks_becomes_a_tab(depths: list[int], width: int, aligned: int) -> None:
    def written(level: str) -> str:
        return f"{{\n{level}y\n" + "\n".join(level * depth + " " * aligned + "x" for depth in depths)

    assert indented(written(" " * width), scene_at("a {\n\tb\n}\nc ¦\n", "go")) == written("\t")


def test_tabs_in_a_file_of_blanks_become_blanks() -> None:
    marked = "def f():\n  if x:\n    return 1\n\ndef g():¦\n"
    assert accepted(marked, "\n\tif y:\n\t\treturn 2\n") == marked.replace("¦", "\n  if y:\n    return 2¦")


@pytest.mark.parametrize(
    ("marked", "writes", "expected"),
    [
        ("def f():\n    x = 1\n    ¦\n", "    return x\n", "def f():\n    x = 1\n    return x¦\n"),
        ("def f():\n    x = 1\n¦\n", "    return x\n", "def f():\n    x = 1\n    return x¦\n"),
        ("class A:\n    ¦\n", "def f(self):\n        pass\n", "class A:\n    def f(self):\n        pass¦\n"),
        ("return ¦\n", " x\n", "return x¦\n"),
        ("x =¦\n", " 1\n", "x = 1¦\n"),
    ],
)
def test_the_first_line_is_indented_right(marked: str, writes: str, expected: str) -> None:
    assert accepted(marked, writes) == expected


@pytest.mark.parametrize("writes", ["", " ", "\n", "    \n\n\n\n\n\n", "\t", "\n\n", "\u3000"])
def test_blanks_alone_are_nothing(writes: str) -> None:
    completion = completed("def f():\n    x = 1\n    ¦\n    y = 2\n", writes)
    assert (completion.text, completion.stop_reason) == ("", StopReason.EMPTY)


def test_the_prompt_holds_what_stands_behind_the_cursor() -> None:
    """So no answer, and no cache, of another suffix can be taken for its own."""
    behind = [f"line{i}\n" for i in range(9)]
    one = _prompt("a\nx = ¦\n" + "".join(behind))
    other = _prompt("a\nx = ¦\n" + "".join(behind).replace("line8", "line9"))
    assert one.token_ids != other.token_ids


@pytest.mark.parametrize("writes", ["<|file_sep|>a.py\nx", "<|endoftext|>", "<|fim_prefix|>x"])
def test_special_tokens_are_never_shown(writes: str) -> None:
    tokens = [*b"1 + 2", *TOKENIZER.encode(writes, special=True)]
    assert completed("x = ¦\n", tokens).text == "1 + 2"
    spelled = completed("x = ¦\n", "1 + 2" + writes)
    assert spelled.text == "1 + 2"


def test_code_about_special_tokens_may_name_them() -> None:
    marked = 'PREFIX = "<|fim_prefix|>"\nparts = ¦\n'
    assert completed(marked, '["<|fim_prefix|>"]\n').text == '["<|fim_prefix|>"]'


def test_special_tokens_in_the_text_are_plain_text() -> None:
    prompt = _prompt('x = "<|fim_middle|>"\ny = ¦\n' + 'z = "<|fim_suffix|>"\n' * 9)
    named = [prompt.token_ids.count(TOKENIZER.special[name]) for name in ("<|fim_middle|>", "<|fim_suffix|>")]
    assert named == [1, 1]


@pytest.mark.parametrize("fim", [(), (PREFIX_FIRST,), (SUFFIX_FIRST,)])
def test_every_template_gives_text(fim: tuple[FimTemplate, ...]) -> None:
    marked = "def f(a):\n    return ¦\n" + "x = 1\n" * 9
    assert completed(marked, "a + 1\n", fim=fim).text == "a + 1"


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ("    once()\n" * 5, "once()"),
        ("    first()\n    second()\n" * 5, "first()\n    second()"),
        ("    x = " + "1, 2, " * 40, ""),
    ],
)
def test_a_loop_is_cut(writes: str, expected: str) -> None:
    completion = completed("def f():\n    ¦\n", writes.lstrip())
    assert (completion.text, completion.stop_reason) == (expected, StopReason.REPETITION)


def test_the_range_ends_with_the_line() -> None:
    completion = completed("f(¦)  \r\ny", "x)")
    assert (completion.start, completion.end, completion.text) == (2, 5, "x)  ")
