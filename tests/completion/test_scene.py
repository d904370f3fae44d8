"""What a key costs around the cursor, counted: parses, tokens, code points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ghostdraft.completion import syntax
from ghostdraft.completion.scene import SIGHT, Scene, look
from ghostdraft.completion.stopping import Stopper
from ghostdraft.completion.syntax import Trees
from ghostdraft.completion.types import Snapshot, StopReason

HEAD = "def f(a, b):\n    return [a, b]\n\n\n" * 100
TYPED = "x = f(a, (b + 1"


def scene_of(before: str, behind: str = "\n", trees: Trees | None = None) -> Scene:
    return look(Snapshot("file:///a", 1, "python", before + behind, len(before)), trees or Trees())


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[None]:
    """Has an item for each call of this function of `syntax` from now on."""
    calls, function = list[None](), getattr(syntax, name)

    def call(*arguments: Any) -> Any:
        calls.append(None)
        return function(*arguments)

    monkeypatch.setattr(syntax, name, call)
    return calls


def test_a_key_is_parsed_only_where_the_grammar_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    trees, parses = Trees(), counted(monkeypatch, "_parser")
    for end in range(1, len(TYPED)):
        stopper = Stopper(scene_of(HEAD + TYPED[:end], trees=trees))
        stopper.feed("y + z")
        stopper.close(StopReason.MAX_TOKENS)
    assert not parses
    stopper = Stopper(scene_of(HEAD + TYPED, trees=trees))
    stopper.feed("))\n")
    assert len(parses) == 3  # the document, the text before the cursor, and that with the suggestion


@pytest.mark.parametrize(
    "ask", [lambda scene: scene.block_at("", 0), lambda scene: scene.leaves("", -len("    pass\n"), 0)]
)
def test_only_the_last_tokens_are_read(ask: Callable[[Scene], object], monkeypatch: pytest.MonkeyPatch) -> None:
    scene = scene_of(HEAD + "if a:\n    pass\n")
    read = counted(monkeypatch, "_leaf_kind")
    ask(scene)
    assert 0 < len(read) < 10


def test_of_an_endless_line_as_much_is_read_as_of_others() -> None:
    assert scene_of("x = f(" + "a, " * 10).opened == ("(",)
    assert scene_of("x = f(" + "a, " * SIGHT).opened == ()
