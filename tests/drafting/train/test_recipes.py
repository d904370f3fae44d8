"""How each kind begins, learns and is asked, on what a small random model says; and files of drafts, there and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ghostdraft.drafting.train import export
from ghostdraft.drafting.train.beginnings import Target, new_network, stored_network
from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork
from ghostdraft.drafting.train.recipes import lesson_loss, marks, recipe_for, text_loss
from ghostdraft.drafting.train.sequences import Documents, Sampler
from ghostdraft.drafting.train.teacher import Exam, Lessons, best_tokens, teach
from ghostdraft.drafting.train.trainer import Plan, Trainer
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.draft_file import DraftKind
from ghostdraft.models.types import WeightsCorrupt
from tests.models.small_models import VOCAB, shape, stored, tokens

LENGTH, COUNT = 32, 12
KNOWN = np.arange(0, 97, 2, dtype=np.int32)  # of the tokens, half


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    made = stored(replace(shape("qwen2"), hidden=32), tmp_path_factory.mktemp("small"))
    convert(made)
    return made


@pytest.fixture(scope="module")
def target(checkpoint: Checkpoint) -> Target:
    return Target.of(checkpoint, KNOWN)


@pytest.fixture(scope="module")
def exam(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Exam:
    model = CpuModel(checkpoint.cpu_weights, 2 * LENGTH, threads=1)
    lessons = Lessons(tmp_path_factory.mktemp("lessons"), COUNT, LENGTH, model.shape.hidden)
    teach(model, lessons, lambda number: np.array(tokens(LENGTH, number), np.int32), lambda *_: None)
    token_ids, _ = lessons.take(np.arange(COUNT, dtype=np.int32))
    return Exam(lessons, np.stack([best_tokens(model, one) for one in token_ids]))


def begun(kind: DraftKind, target: Target) -> nn.Module:
    torch.manual_seed(1)
    return new_network(kind, target)


@pytest.mark.parametrize("kind", list(DraftKind))
def test_each_kind_learns(kind: DraftKind, target: Target, exam: Exam, tmp_path: Path) -> None:
    recipe = recipe_for(begun(kind, target), target.head)
    before = marks(recipe, target, exam)
    loss = lesson_loss(recipe, target, exam.lessons, seed=1)
    done = list(Trainer(recipe.network, loss, tmp_path / "last.pt").run(Plan(steps=25)))
    after = marks(recipe, target, exam)
    assert done[-1].loss < done[0].loss
    assert after.loss < before.loss
    assert after.acceptance[-1] > before.acceptance[-1]
    assert all(0 <= share <= 1 for share in (*before.acceptance, *after.acceptance))


def test_a_draft_model_learns_of_text_alone(target: Target, tmp_path: Path) -> None:
    network = begun(DraftKind.DRAFT_MODEL, target)
    assert isinstance(network, DraftNetwork)
    text = Documents(np.tile(KNOWN[:16], 40), np.array([0, 640]))
    loss = text_loss(network, target, Sampler({"python": text}, None, LENGTH + 1, seed=1))
    done = list(Trainer(network, loss, tmp_path / "last.pt").run(Plan(steps=25)))
    assert done[-1].loss < 0.8 * done[0].loss


def test_batches_of_lessons_are_the_same_for_the_same_seed(target: Target, exam: Exam) -> None:
    recipe = recipe_for(begun(DraftKind.MEDUSA, target), target.head)
    one, other = (lesson_loss(recipe, target, exam.lessons, seed) for seed in (1, 2))
    assert one(3).item() == lesson_loss(recipe, target, exam.lessons, 1)(3).item() != one(4).item()
    assert one(3).item() != other(3).item()


@dataclass(frozen=True, slots=True)
class Knowing:
    """Guesses what the target said, where the draft knows that token, at the last `places` of a sequence."""

    network: nn.Module
    exam: Exam
    places: tuple[int, ...]
    shift: int = 0

    def loss(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        return torch.zeros(())

    def guesses(self, token_ids: torch.Tensor, states: torch.Tensor) -> Iterator[torch.Tensor]:  # noqa: ARG002
        known, _ = self.exam.lessons.take(np.arange(COUNT, dtype=np.int32))
        number = next(i for i, one in enumerate(known) if (one == token_ids[0].numpy()).all())
        best = np.roll(self.exam.best[number], self.shift)
        for places in self.places:
            yield torch.from_numpy(best[None, -places:, None] == KNOWN).float()


def test_acceptance_is_of_all_tokens_that_the_target_knows(target: Target, exam: Exam) -> None:
    known = np.isin(exam.best[:, -24:], KNOWN).mean()
    found = marks(Knowing(nn.Module(), exam, (LENGTH, LENGTH - 1, LENGTH - 5)), target, exam)
    assert found.acceptance == pytest.approx((known,) * 3)
    assert 0.2 < known < 0.8
    shifted = marks(Knowing(nn.Module(), exam, (LENGTH,), shift=1), target, exam)
    assert shifted.acceptance[0] < known


@pytest.mark.parametrize("kind", list(DraftKind))
def test_a_draft_comes_back_from_its_file(kind: DraftKind, target: Target, exam: Exam, tmp_path: Path) -> None:
    recipe = recipe_for(begun(kind, target), target.head)
    list(Trainer(recipe.network, lesson_loss(recipe, target, exam.lessons, 1), tmp_path / "a.pt").run(Plan(steps=3)))
    path = tmp_path / "draft.gguf"
    export.save(path, recipe.network, export.Target("small", target.shape), KNOWN, {"steps": 3})
    back = recipe_for(stored_network(path, kind, target), target.head)
    losses = [lesson_loss(one, target, exam.lessons, 1)(0).item() for one in (recipe, back)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    again = tmp_path / "again.gguf"
    export.save(again, back.network, export.Target("small", target.shape), KNOWN, {"steps": 3})
    assert again.read_bytes() == path.read_bytes()


def test_an_eagle_begins_as_a_draft_model(target: Target, tmp_path: Path) -> None:
    draft = begun(DraftKind.DRAFT_MODEL, target)
    path = tmp_path / "draft.gguf"
    export.save(path, draft, export.Target("small", target.shape), KNOWN, {})
    assert isinstance(stored_network(path, DraftKind.EAGLE, target), EagleNetwork)


def test_a_draft_of_another_target_is_refused(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "draft.gguf"
    other = replace(target.shape, vocab=VOCAB + 1)
    export.save(path, begun(DraftKind.DRAFT_MODEL, target), export.Target("other", other), KNOWN, {})
    with pytest.raises(WeightsCorrupt, match="trained for other"):
        stored_network(path, DraftKind.DRAFT_MODEL, target)
