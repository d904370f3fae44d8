"""Incremental tree-sitter parses, and the tokens around the cursor. The only file with byte offsets.

What goes in and comes out are code points. A grammar is imported when a document of its language is first parsed.
Knows nothing of what the tokens mean to a stop rule.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import PurePosixPath

from tree_sitter import Language, Node, Parser, Point, Tree, TreeCursor

from ghostdraft.completion.context import prefix_start, suffix_range
from ghostdraft.completion.types import Edit, Snapshot
from ghostdraft.drafting.bisection import longest

# LSP languageId -> (module, its entry point)
GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "javascriptreact": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "typescriptreact": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "shellscript": ("tree_sitter_bash", "language"),
    "html": ("tree_sitter_html", "language"),
    "css": ("tree_sitter_css", "language"),
    "json": ("tree_sitter_json", "language"),
    "jsonc": ("tree_sitter_json", "language"),
    "yaml": ("tree_sitter_yaml", "language"),
    "toml": ("tree_sitter_toml", "language"),
    "lua": ("tree_sitter_lua", "language"),
    "sql": ("tree_sitter_sql", "language"),
    "kotlin": ("tree_sitter_kotlin", "language"),
    "swift": ("tree_sitter_swift", "language"),
}

LANGUAGES_BY_SUFFIX = {
    "py": "python", "pyi": "python", "pyw": "python",
    "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascriptreact",
    "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "typescriptreact",
    "go": "go", "rs": "rust", "java": "java",
    "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hh": "cpp", "hpp": "cpp", "hxx": "cpp",
    "cs": "csharp", "rb": "ruby", "rake": "ruby", "php": "php",
    "sh": "shellscript", "bash": "shellscript", "zsh": "shellscript",
    "html": "html", "htm": "html", "css": "css", "json": "json", "jsonc": "jsonc", "yaml": "yaml", "yml": "yaml",
    "toml": "toml", "lua": "lua", "sql": "sql", "kt": "kotlin", "kts": "kotlin", "swift": "swift",
}  # fmt: skip

CONTINUATION = bytes(range(0x80, 0xC0))  # UTF-8 bytes that begin no character
MOST_EDITS = 64  # more are taken as one
MOST_BEFORE = 131_072  # code points before the cursor that are parsed: a reparse is linear
MOST_BEHIND = 8192  # and behind it: behind a bracket that is not closed yet all of it is parsed anew, and slowly
MOST_KNOWN = 3 * (MOST_BEFORE + MOST_BEHIND)  # code points of all trees: each takes 50 bytes
BRANCH = 4096  # code points before the cursor that are parsed again with a suggestion behind them


class Literal(StrEnum):
    STRING = "string"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A token of the grammar, a comment being one: its name, and its range in the text."""

    kind: str
    start: int
    end: int


def excerpt(snapshot: Snapshot) -> Snapshot:
    """The snapshot, or of a long document the part around the cursor; typing moves its start in large steps."""
    start = prefix_start(snapshot.text, snapshot.cursor, MOST_BEFORE)
    _, end = suffix_range(snapshot.text, snapshot.cursor, MOST_BEHIND)
    if start == 0 and end == len(snapshot.text):
        return snapshot
    return replace(snapshot, text=snapshot.text[start:end], cursor=snapshot.cursor - start, edits=None)


def language_of(path: str) -> str:
    """The LSP languageId of a file, by its name's suffix; "plaintext" where it is unknown."""
    return LANGUAGES_BY_SUFFIX.get(PurePosixPath(path).suffix[1:].lower(), "plaintext")


class Trees:
    """The last trees of the documents most recently asked for: at most `capacity`, and of so much text that memory
    stays bounded."""

    def __init__(self, capacity: int = 16, most: int = MOST_KNOWN) -> None:
        self._capacity = capacity
        self._most = most  # code points
        self._known: OrderedDict[str, Syntax] = OrderedDict()

    def read(self, snapshot: Snapshot) -> Reading | None:
        """None: no grammar."""
        return Reading(excerpt(snapshot), self) if snapshot.language_id in GRAMMARS else None

    def parse(self, snapshot: Snapshot) -> Syntax:
        """The syntax of the snapshot, reparsed where it changed since its document's last one."""
        known = self._known.pop(snapshot.uri, None)
        if known is None or known.language_id != snapshot.language_id:
            known = Syntax.parsed(snapshot.text, snapshot.language_id)
        else:
            edits = _edits_between(known.text, snapshot)
            known = known.edited(edits) if edits else known
        self._known[snapshot.uri] = known
        self._forget()
        return known

    def _forget(self) -> None:
        """What is too much, the least recent first; never the last one asked for."""
        room = self._most - sum(len(known.text) for known in self._known.values())
        while len(self._known) > self._capacity or (room < 0 and len(self._known) > 1):
            _, least_recent = self._known.popitem(last=False)
            room += len(least_recent.text)

    def __contains__(self, uri: str) -> bool:
        return uri in self._known

    def __len__(self) -> int:
        return len(self._known)


class Reading:
    """A snapshot as its grammar reads it: parsed when that is first asked for, which most keys never do."""

    def __init__(self, snapshot: Snapshot, trees: Trees) -> None:
        self._snapshot = snapshot
        self._trees = trees

    @cached_property
    def literal(self) -> Literal | None:
        """What the cursor stands in."""
        return self._syntax.literal(self._snapshot.cursor)

    @cached_property
    def branch(self) -> Branch:
        return Branch(self._syntax, self._snapshot.cursor)

    def breaks(self, text: str, replaced: int) -> bool:
        """Whether the document has more faults with `text` in place of so many code points behind the cursor."""
        cursor = self._snapshot.cursor
        return self._syntax.edited([Edit(cursor, cursor + replaced, text)]).faults() > self._syntax.faults()

    @cached_property
    def _syntax(self) -> Syntax:
        return self._trees.parse(self._snapshot)


@dataclass(frozen=True, slots=True)
class Syntax:
    """One text and its tree. Places are code points from the text's start."""

    text: str
    language_id: str
    tree: Tree

    @staticmethod
    def parsed(text: str, language_id: str) -> Syntax:
        return Syntax(text, language_id, _parser(language_id).parse(_utf8(text)))

    def edited(self, edits: Iterable[Edit]) -> Syntax:
        """The syntax after the edits, in order; what they did not touch is not parsed again."""
        tree, text = self.tree.copy(), self.text
        for edit in edits:
            _shift(tree, text, edit)
            text = applied(text, edit)
        return Syntax(text, self.language_id, _parser(self.language_id).parse(_utf8(text), tree))

    def faults(self) -> int:
        """How often the grammar finds what it cannot read, or misses a token."""
        count, nodes = 0, [self.tree.root_node]
        while nodes:
            node = nodes.pop()
            count += node.is_error or node.is_missing
            nodes += [child for child in node.children if child.has_error]
        return count

    def literal(self, at: int) -> Literal | None:
        """Whether the place `at` lies inside a string or a comment."""
        node = self._literal_node(at)
        if node is None:
            return None
        return Literal.COMMENT if "comment" in node.type else Literal.STRING

    def _literal_node(self, at: int) -> Node | None:
        """The outermost string or comment around `at`."""
        place = len(_utf8(self.text[:at]))
        node = self.tree.root_node.descendant_for_byte_range(max(place - 1, 0), place)
        found = None
        while node is not None:
            found = node if _holds(node, place) else found
            node = node.parent
        return found

    def outside_literals(self, at: int) -> int:
        """`at`, or the end of the string or comment that it lies in."""
        node = self._literal_node(at)
        return at if node is None else _code_points(_utf8(self.text)[: node.end_byte])

    def leaves_before(self, end: int) -> Iterator[Leaf]:
        """The tokens that end at the code point `end` or before it, from the last one on."""
        text = _utf8(self.text[:end])
        place, at = len(text), end
        for node in _leaf_nodes_before(self.tree.walk(), place):
            behind = at - _code_points(text[node.end_byte : place])
            place, at = node.start_byte, behind - _code_points(text[node.start_byte : node.end_byte])
            yield Leaf(_leaf_kind(node), at, behind)


class Branch:
    """The text before the cursor, as it grows by a suggestion. What stands behind the cursor is not in it, so that
    no bracket of the suggestion is taken for one there. Places are code points from the cursor on, negative before it.
    """

    def __init__(self, syntax: Syntax, cursor: int) -> None:
        start = syntax.outside_literals(prefix_start(syntax.text, cursor, BRANCH))
        before = syntax.text[start:cursor]
        self._before = len(before)
        self._syntax = Syntax.parsed(before, syntax.language_id)

    def leaves_before(self, suggestion: str, end: int) -> Iterator[Leaf]:
        """The tokens that end at `end` or before it, from the last one on, once `suggestion` stands at the cursor."""
        before, written = self._before, self._syntax.text[self._before :]
        if written != suggestion:
            shared = len(written) if suggestion.startswith(written) else 0
            edit = Edit(before + shared, len(self._syntax.text), suggestion[shared:])
            self._syntax = self._syntax.edited([edit])
        leaves = self._syntax.leaves_before(before + end)
        return (Leaf(leaf.kind, leaf.start - before, leaf.end - before) for leaf in leaves)


def applied(text: str, edit: Edit) -> str:
    return text[: edit.start] + edit.text + text[edit.end :]


def difference(old: str, new: str) -> Edit:
    """One edit that leads from `old` to `new`."""
    most = min(len(old), len(new))
    start = longest(most, lambda least, length: old[least:length] == new[least:length])
    behind = longest(most - start, lambda least, length: _tail(old, least, length) == _tail(new, least, length))
    return Edit(start, len(old) - behind, new[start : len(new) - behind])


def _tail(text: str, least: int, length: int) -> str:
    """Of its last `length` code points all but the last `least`."""
    return text[len(text) - length : len(text) - least]


def _edits_between(old: str, snapshot: Snapshot) -> tuple[Edit, ...]:
    """The snapshot's own edits where they lead from `old` to its text, else one that does."""
    if old == snapshot.text:
        return ()
    if snapshot.edits is not None and len(snapshot.edits) <= MOST_EDITS:
        text = old
        for edit in snapshot.edits:
            text = applied(text, edit)
        if text == snapshot.text:
            return snapshot.edits
    return (difference(old, snapshot.text),)


def _parser(language_id: str) -> Parser:
    """A new one for each parse: it is cheap, and threads must not share one."""
    return Parser(_grammar(language_id))


@cache
def _grammar(language_id: str) -> Language:
    module, entry = GRAMMARS[language_id]
    return Language(getattr(importlib.import_module(module), entry)())


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _code_points(text: bytes) -> int:
    return len(text.translate(None, CONTINUATION))


def _shift(tree: Tree, text: str, edit: Edit) -> None:
    """Tells the tree of `text` where `edit` moves its nodes."""
    place, point = _behind(0, Point(0, 0), text[: edit.start])
    old_place, old_point = _behind(place, point, text[edit.start : edit.end])
    new_place, new_point = _behind(place, point, edit.text)
    tree.edit(place, old_place, new_place, point, old_point, new_point)


def _behind(place: int, point: Point, text: str) -> tuple[int, Point]:
    """Where `text` ends that begins at `place`, in bytes, and `point`, a row and bytes in it."""
    last = text[text.rfind("\n") + 1 :]
    column = len(_utf8(last)) + (point.column if len(last) == len(text) else 0)
    return place + len(_utf8(text)), Point(point.row + text.count("\n"), column)


def _leaf_nodes_before(cursor: TreeCursor, last: int) -> Iterator[Node]:
    """Nodes without children that end by the byte `last`, from the last one on; comments whole. None that was only
    assumed."""
    if not cursor.goto_last_child():
        return
    while True:
        node = cursor.node
        assert node is not None
        if node.start_byte < last and "comment" not in node.type and cursor.goto_last_child():
            continue
        if node.start_byte < node.end_byte <= last and not node.is_missing:
            yield node
        while not cursor.goto_previous_sibling():
            if not cursor.goto_parent():
                return


def _leaf_kind(node: Node) -> str:
    return "comment" if "comment" in node.type else node.type


def _holds(node: Node, place: int) -> bool:
    """Whether it is a string or comment that begins before `place` and ends behind it; a comment may end there."""
    if "comment" in node.type:
        return node.start_byte < place <= node.end_byte
    is_string = any(word in node.type for word in ("string", "char", "heredoc"))
    return is_string and node.start_byte < place < node.end_byte
