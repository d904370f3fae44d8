"""The drafts that come with the package: each can be read, has its card, and all together are small."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghostdraft.models.draft_file import ENDING, read_draft
from ghostdraft.models.drafts import SHIPPED
from ghostdraft.models.registry import MODELS

MOST_BYTES = 25_000_000
DRAFTS = sorted(SHIPPED.glob(f"*/*{ENDING}"))


def test_there_are_some_and_all_together_are_small() -> None:
    assert DRAFTS
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) <= MOST_BYTES


@pytest.mark.parametrize("path", DRAFTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_is_for_a_known_model_and_has_its_card(path: Path) -> None:
    header = read_draft(path)
    assert (header.target, header.kind.value) == (path.parent.name, path.stem)
    assert header.target in MODELS
    assert (header.vocabulary[1:] > header.vocabulary[:-1]).all()
    card = path.with_suffix(".md").read_text(encoding="utf-8")
    assert all(word in card for word in ("steps", "loss", "acceptance", "licence", "packages"))
