"""The training of drafts that ship, from a small corpus to a draft with its card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ghostdraft.benchmarks import train_drafts
from ghostdraft.benchmarks.train_drafts import Options, Unfinished, build
from ghostdraft.benchmarks.training_corpus import save
from ghostdraft.drafting.train import refining
from ghostdraft.models.acquire import import_file
from ghostdraft.models.draft_file import DraftKind, read_draft
from ghostdraft.models.store import Store
from ghostdraft.models.types import ModelError
from tests.models.published import gguf_file

torch.set_num_threads(1)  # such small models lose by more


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    for module, name, value in ((refining, "EXAM", 2), (refining, "LENGTH", 64), (train_drafts, "TEXT_LENGTH", 65)):
        monkeypatch.setattr(module, name, value)
    import_file(Store(), gguf_file(tmp_path / "small.gguf"), "small")
    corpus, random = tmp_path / "corpus", np.random.default_rng(1)
    corpus.mkdir()
    for part in ("train", "heldout"):
        save(corpus / f"python.{part}", [random.integers(0, 200, 300).astype(np.int32) for _ in range(3)])
    counts = {"files": 3, "tokens": 900}
    index = {"packages": {"a": {}}, "languages": {"python.train": counts}, "licences": {"MIT | Apache-2.0": counts}}
    (corpus / "corpus.json").write_text(json.dumps(index), "utf-8")
    return Options(
        corpus, tmp_path / "work", "small", DraftKind.DRAFT_MODEL, 5, text_steps=3, steps=4, lessons=8, seed=1
    )


def test_a_draft_is_written_with_its_card(options: Options, tmp_path: Path) -> None:
    output = tmp_path / "weights"
    found = build(options, output)
    assert (found["steps"], found["text_steps"], found["sequences"]) == (4, 3, 8)
    assert read_draft(output / "draft-model.gguf").target == "small"
    text = (output / "draft-model.md").read_text("utf-8")
    for said in ("| python.train | 3 | 900 |", r"| MIT \| Apache-2.0 | 3 | 900 |", str(found["loss"])):
        assert said in text
    assert build(options, output) == found  # nothing is left to do


def test_what_is_not_finished_goes_on(options: Options, tmp_path: Path) -> None:
    with pytest.raises(Unfinished, match="0 of 3 steps"):
        build(replace(options, minutes=0), tmp_path / "weights")
    assert not (tmp_path / "weights").exists()


def test_an_eagle_needs_a_draft_model(options: Options, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Train that first"):
        build(replace(options, kind=DraftKind.EAGLE), tmp_path / "weights")
