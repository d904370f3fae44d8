"""Holes: places in real files where the rest of a block is cut out, so that no drafter can read the answer.

A hole stands at the first line of a block's body, after its indent; the text from there to the end of the block is
cut out, and what closes the block stays. Knows the shape of blocks in some languages; nothing of models or drafters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tree_sitter import Node

from ghostdraft.completion.blocks import indentation
from ghostdraft.completion.syntax import Syntax

LIST_FILE = "holes.json"
SHORTEST, LONGEST = 10, 60  # lines of a hole


@dataclass(frozen=True, slots=True)
class Rules:
    """Where a language's blocks are: `blocks` are node types whose lines between the first and last are the body,
    or, for an indented language, whose own lines are. `comments`: how a line of comment begins."""

    blocks: frozenset[str]
    comments: tuple[str, ...] = ("//", "/*", "*")
    indented: bool = False


LANGUAGES = {
    "python": Rules(frozenset({"block"}), ("#",), indented=True),
    "typescript": Rules(frozenset({"statement_block"})),
    "javascript": Rules(frozenset({"statement_block"})),
    "go": Rules(frozenset({"block"})),
    "rust": Rules(frozenset({"block"})),
    "c": Rules(frozenset({"compound_statement"})),
    "java": Rules(frozenset({"block", "constructor_body"})),
}


@dataclass(frozen=True, slots=True)
class Block:
    """The body of a block: its first line, 1-based, and how many lines it has.

    `repeated` is the share of the body's runs of three lines that also stand elsewhere in the file.
    """

    line: int
    lines: int
    repeated: float


@dataclass(frozen=True, slots=True)
class Package:
    """A pinned package: `artefact` is the file that its registry ("pypi", "npm" or "debian") serves, `sha256` is that
    file's checksum."""

    registry: str
    name: str
    version: str
    artefact: str
    sha256: str
    licence: str


@dataclass(frozen=True, slots=True)
class Hole:
    """A block in a file of a package; `path` is the file's path inside the artefact."""

    package: Package
    path: str
    language: str
    block: Block


@dataclass(frozen=True, slots=True)
class HoleList:
    """The list that ships with the program, and the sha256 of its file: every table of results names it."""

    holes: tuple[Hole, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """A file with its hole cut out: `text[:offset]` stands before the cursor, offset in code points.

    `body` is what was cut out, from the cursor to the end of the block's last line.
    """

    name: str
    language: str
    text: str
    offset: int
    body: str = ""


def load_list() -> HoleList:
    """The holes that ship with the program. Their order is balanced: the first N hold each language's share."""
    data = files("ghostdraft.benchmarks").joinpath(LIST_FILE).read_bytes()
    content = json.loads(data)
    packages = {key: Package(**fields) for key, fields in content["packages"].items()}
    holes = tuple(_hole(packages, fields) for fields in content["holes"])
    return HoleList(holes, hashlib.sha256(data).hexdigest())


def _hole(packages: dict[str, Package], fields: dict[str, Any]) -> Hole:
    block = Block(fields["line"], fields["lines"], fields["repeated"])
    return Hole(packages[fields["package"]], fields["path"], fields["language"], block)


def cut(name: str, language: str, text: str, block: Block) -> Cursor:
    """`text` without the block's body; the cursor stands behind the first line's indent.

    Raises ValueError where the text has no such lines.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    first, last = block.line - 1, block.line - 1 + block.lines
    if not 0 <= first < last <= len(lines):
        raise ValueError(f"{name} has no lines {block.line} to {last}.")
    indent = indentation(lines[first])
    prefix, body = "\n".join([*lines[:first], indent]), "\n".join(lines[first:last]).removeprefix(indent)
    return Cursor(name, language, "\n".join([prefix, *lines[last:]]), len(prefix), body)


def find_blocks(text: str, language: str) -> Iterator[Block]:
    """Every block of `text` whose body can be a hole, in the order of the file, nested ones too."""
    rules, lines = LANGUAGES[language], text.split("\n")
    for node in _nodes(Syntax.parsed(text, language).tree.root_node):
        if node.type in rules.blocks and not node.has_error:
            span = _indented_body(node, lines) if rules.indented else _braced_body(node, lines)
            if span and SHORTEST <= span[1] - span[0] <= LONGEST and _is_code(lines[span[0] : span[1]], rules.comments):
                yield Block(span[0] + 1, span[1] - span[0], _repeated(lines, *span))


def shingles(lines: list[str]) -> set[tuple[str, ...]]:
    """All runs of three non-blank lines, without their indents."""
    stripped = [line.strip() for line in lines if line.strip()]
    return {tuple(stripped[i : i + 3]) for i in range(len(stripped) - 2)}


def _nodes(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _indented_body(node: Node, lines: list[str]) -> tuple[int, int] | None:
    """Rows [first, last) of an indented block below a line that ends in a colon, but a class's or a docstring's."""
    first, header = node.start_point.row, lines[node.start_point.row - 1].rstrip()
    opens_with_string = node.child_count > 0 and re.match(r"[rbuRBU]*[\"']", lines[first].strip())
    is_class = node.parent is not None and node.parent.type == "class_definition"
    if not header.endswith(":") or is_class or opens_with_string:
        return None
    return first, node.end_point.row + (node.end_point.column > 0)


def _braced_body(node: Node, lines: list[str]) -> tuple[int, int] | None:
    """Rows [first, last) between a brace that ends its line and one that begins its line."""
    first, last = node.start_point.row, node.end_point.row
    if lines[first].rstrip().endswith("{") and lines[last].lstrip().startswith("}"):
        return first + 1, last
    return None


def _is_code(body: list[str], comments: tuple[str, ...]) -> bool:
    """Not blank at the start, not mostly comments, not a table of numbers, no overlong line."""
    written = [line.strip() for line in body if line.strip()]
    commented = sum(line.startswith(comments) for line in written)
    characters = "".join(written)
    digits = sum(c.isdigit() for c in characters)
    return (
        bool(body[0].strip())
        and len(written) >= SHORTEST
        and commented <= 0.3 * len(written)
        and digits <= 0.15 * len(characters)
        and max(map(len, body)) <= 160
    )


def _repeated(lines: list[str], first: int, last: int) -> float:
    inside = shingles(lines[first:last])
    outside = shingles(lines[:first]) | shingles(lines[last:])
    return round(len(inside & outside) / max(1, len(inside)), 3)
