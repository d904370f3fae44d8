"""Closers behind the cursor stay single where the cursor stands in an interpolation, or in brackets within a string."""

from __future__ import annotations

import pytest

from ghostdraft.completion.types import StopReason
from tests.completion.writing import CURSOR, accepted, completed

CLOSED_BEHIND = [
    # the model writes all that stands behind
    ("python", 'print(f"total: {inv.¦}")', 'total}")', 'print(f"total: {inv.total}")'),
    ("python", 'print(f"name {¦}")', 'n} is {n} years old")', 'print(f"name {n} is {n} years old")'),
    ("python", "print(f'name {¦}')", 'n} is {m["a"]}\')', "print(f'name {n} is {m[\"a\"]}')"),
    ("python", "x = f\"{d['¦']}\"", "key']} left\"", "x = f\"{d['key']} left\""),
    ("python", 'x = g(f"{f(¦)}")', 'a, "b")} left")', 'x = g(f"{f(a, "b")} left")'),
    ("python", 'x = f"""{¦}"""', 'a}"""', 'x = f"""{a}"""'),
    ("python", 'x = "{¦}"', 'a} {b}".format(a=1)', 'x = "{a} {b}".format(a=1)'),
    (
        "typescript",
        "const s = `hello ${user.¦}`;",
        "name} ${user.age}`;",
        "const s = `hello ${user.name} ${user.age}`;",
    ),
    ("typescript", "foo(`a ${¦}`);", "b}`);", "foo(`a ${b}`);"),
    ("typescript", "foo(`a ${ ¦ }`);", "b }`);", "foo(`a ${ b }`);"),
    ("typescript", "foo(`${f(¦)}`);", "a.map(x => `<${x}>`))}`);", "foo(`${f(a.map(x => `<${x}>`))}`);"),
    ("javascript", "foo(`${a ? `¦` : ''}`);", "b` : ''}`);", "foo(`${a ? `b` : ''}`);"),
    ("javascript", "x = `\n  ${user.¦}\n`;", "name}!", "x = `\n  ${user.name}!\n`;"),
    ("javascript", "q(\"[id='¦']\");", "a']\");", "q(\"[id='a']\");"),
    ("csharp", 'Log($"total {inv.¦}");', 'Total} of {n}");', 'Log($"total {inv.Total} of {n}");'),
    ("kotlin", 'println("a ${b.¦}")', 'c} ${d["e"]}")', 'println("a ${b.c} ${d["e"]}")'),
    ("ruby", 'puts("a #{b.¦}")', 'c} #{d["e"]}")', 'puts("a #{b.c} #{d["e"]}")'),
    ("shellscript", 'x="${¦}"', 'y:-"z"}/w"', 'x="${y:-"z"}/w"'),
    ("shellscript", 'x="$(dirname "¦")"', '$0")/w"', 'x="$(dirname "$0")/w"'),
    ("php", 'f("a {$b[¦]}");', '"c"]} d");', 'f("a {$b["c"]} d");'),
    ("swift", 'print("a \\(b.¦)")', 'c) d")', 'print("a \\(b.c) d")'),
    ("rust", 'println!("{¦}");', 'a} {}", b);', 'println!("{a} {}", b);'),
    # or a part of it
    ("python", 'print(f"total: {inv.¦}")', "total", 'print(f"total: {inv.total}")'),
    ("python", 'print(f"total: {inv.¦}")', "total}", 'print(f"total: {inv.total}")'),
    ("python", 'print(f"total: {inv.¦}")', 'total} left"', 'print(f"total: {inv.total} left")'),
    ("typescript", "foo(`${f(g(¦))}`);", "a))", "foo(`${f(g(a))}`);"),
    # before more text
    ("python", 'print(f"{a.¦} and {b}")', 'c}, then {d}")', 'print(f"{a.c} and {b}")'),
    ("typescript", "foo(`${a.¦} and ${b}`);", "c}, then ${d}`);", "foo(`${a.c} and ${b}`);"),
    ("javascript", "x = `\n  ${a.¦} and\n`;", "c}, then", "x = `\n  ${a.c} and\n`;"),
    # where the brackets of a string are text
    ("python", "f('(', ¦)", "a)", "f('(', a)"),
    ("python", "f('(¦')", "a')", "f('(a')"),
    ("python", 'f("it\'s {¦}")', 'a}")', 'f("it\'s {a}")'),
    ("python", 'f(r"\\(¦")', 'a\\)")', 'f(r"\\(a\\)")'),
]


@pytest.mark.parametrize(("language", "marked", "writes", "whole"), CLOSED_BEHIND)
def test_no_closer_is_doubled(language: str, marked: str, writes: str, whole: str) -> None:
    assert accepted(marked + "\n", writes + "\n", language).replace(CURSOR, "") == whole + "\n"


def test_it_stops_before_the_closer_that_text_follows() -> None:
    completion = completed('print(f"{a.¦} and {b}")\n', 'c}, then {d}")\n')
    assert (completion.text, completion.stop_reason) == ("c", StopReason.BRACKET)
