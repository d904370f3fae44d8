"""The holes: found by the same rules in every language, cut out whole, and the list that ships is what it says."""

from __future__ import annotations

from collections import Counter
from textwrap import dedent, indent

import pytest

from ghostdraft.benchmarks.corpus import read_packages
from ghostdraft.benchmarks.holes import LONGEST, SHORTEST, Block, cut, find_blocks, load_list

STATEMENTS = [f"first = step({name})" for name in ("one", "two", "three", "four", "five", "six")]
MORE = [f"second = other({name})" for name in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")]
BODY = STATEMENTS + MORE

BRACED = {
    "typescript": "function run(one: number) {\n%s}\n",
    "javascript": "function run(one) {\n%s}\n",
    "go": "package main\n\nfunc run(one int) {\n%s}\n",
    "rust": "fn run(one: i32) {\n%s}\n",
    "c": "int run(int one) {\n%s}\n",
    "java": "class A {\n    A(int one) {\n%s    }\n}\n",
}


def braced(language: str) -> str:
    end = "" if language == "go" else ";"
    return BRACED[language] % "".join(f"        {line}{end}\n" for line in BODY)


@pytest.mark.parametrize("language", sorted(BRACED))
def test_a_braced_body_is_found_without_its_braces(language: str) -> None:
    text = braced(language)
    (block,) = find_blocks(text, language)
    lines = text.split("\n")[block.line - 1 : block.line - 1 + block.lines]
    assert [line.strip().rstrip(";") for line in lines] == BODY


def test_an_indented_body_is_found_after_its_colon() -> None:
    text = "def run(one):\n" + indent("\n".join(BODY), "    ") + "\n\n\nrest = 1\n"
    assert list(find_blocks(text, "python")) == [Block(2, len(BODY), 0.0)]


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a class", "class A:\n" + indent("\n".join(BODY), "    ")),
        ("a body that opens with a docstring", 'def f():\n    """Says."""\n' + indent("\n".join(BODY), "    ")),
        ("a short body", "def f():\n" + indent("\n".join(BODY[: SHORTEST - 1]), "    ")),
        ("a long body", "def f():\n" + indent("\n".join(f"x{i} = step(y)" for i in range(LONGEST + 1)), "    ")),
        ("comments", "def f():\n" + indent("\n".join(f"# {line}" for line in BODY) + "\nreturn one", "    ")),
        ("a table of numbers", "def f():\n" + indent("\n".join(f"{i}, {i}{i}{i}, {i}{i}" for i in range(12)), "    ")),
        ("broken code", "def f():\n" + indent("\n".join(["(((", *BODY]), "    ")),
    ],
)
def test_what_is_no_hole(what: str, text: str) -> None:
    assert list(find_blocks(text + "\n", "python")) == [], what


def test_lines_that_stand_elsewhere_in_the_file_are_told() -> None:
    body = indent("\n".join(BODY), "    ")
    text = f"def one(a):\n{body}\n\n\ndef two(b):\n{body}\n"
    assert [block.repeated for block in find_blocks(text, "python")] == [1.0, 1.0]


def test_a_hole_leaves_the_indent_before_the_cursor_and_all_that_follows_the_body() -> None:
    text = dedent(
        """\
        void run() {
            one();
            two();
        }
        last
        """
    )
    cursor = cut("a.c", "c", text, Block(2, 2, 0.0))
    assert cursor.text[: cursor.offset] == "void run() {\n    "
    assert cursor.text[cursor.offset :] == "\n}\nlast\n"
    assert cursor.text[: cursor.offset] + cursor.body + cursor.text[cursor.offset :] == text


@pytest.mark.parametrize("inside", ["\f", "\v", "\x1c", "\x85", "\u2028", "\r"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_what_is_cut_out_is_the_block_whatever_else_might_end_a_line(inside: str, line_break: str) -> None:
    text = f"# one{inside}two\n\ndef run(one):\n" + indent("\n".join(BODY), "    ") + "\n\nrest = 1"
    written = text.replace("\n", line_break)
    (block,) = find_blocks(written, "python")
    cursor = cut("a.py", "python", written, block)
    assert cursor.body == "\n    ".join(BODY)
    assert cursor.text[: cursor.offset] + cursor.body + cursor.text[cursor.offset :] == text


def test_no_lines_can_be_cut_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"a\.c has no lines 3 to 4"):
        cut("a.c", "c", "one\ntwo\n", Block(3, 2, 0.0))


def test_the_list_has_enough_holes_in_every_language_from_its_beginning_on() -> None:
    listed = load_list()
    assert len(listed.holes) >= 160
    counts = Counter(hole.language for hole in listed.holes)
    assert counts.pop("python") >= 40
    assert set(counts) == {"typescript", "go", "rust", "c", "java"}
    assert min(counts.values()) >= 30
    assert min(Counter(hole.language for hole in listed.holes[:24]).values()) >= 3


def test_the_list_names_pinned_packages_and_holds_no_text() -> None:
    listed, pinned = load_list(), read_packages()
    assert {hole.package for hole in listed.holes} <= {package for _, package in pinned}
    assert all(len(package.sha256) == 64 and package.licence for _, package in pinned)
    assert len({(hole.package, hole.path) for hole in listed.holes}) == len(listed.holes), "one hole a file"
    assert all(SHORTEST <= hole.block.lines <= LONGEST and hole.block.repeated <= 0.3 for hole in listed.holes)
