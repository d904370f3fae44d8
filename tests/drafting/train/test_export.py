"""What the engine makes of an exported network is what the network says, to the rounding of activations; and what is
read of a file again is what was written, to the rounding of weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ghostdraft.drafting.eagle import Eagle
from ghostdraft.drafting.train.export import Target, restore, save
from ghostdraft.drafting.train.losses import TargetHead
from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork, MedusaHeads, Sizes
from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.cpu.drafts import MedusaHeads as RunningHeads
from ghostdraft.models.cpu.drafts import Norm, OpenDraft, open_draft
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.draft_file import read_tensors
from ghostdraft.models.types import FloatArray, Pass
from tests.models.small_models import hugging_face, shape, stored, tokens

LENGTH = 40
NEAR = 0.06  # of the spread of the logits, on the average
VOCABULARY = np.array([0, 3, 4, 9, 20, 21, 22, 40, 41, 60, 77, 80, 96], np.int32)
SHAPE = shape("qwen2", tied=False)


@dataclass(frozen=True)
class Teacher:
    """A target, what a network borrows of it, and its states [LENGTH, hidden] behind `tokens(LENGTH)`."""

    model: CpuModel
    embedding: torch.Tensor
    head: TargetHead
    states: FloatArray


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Teacher:
    checkpoint = stored(SHAPE, tmp_path_factory.mktemp("target"))
    convert(checkpoint)
    model = CpuModel(checkpoint.cpu_weights, 256, threads=1)
    original = hugging_face(SHAPE).state_dict()
    rows = original["lm_head.weight"][VOCABULARY]
    head = TargetHead(original["model.norm.weight"], rows, SHAPE.rms_eps)
    states = model.forward(tokens(LENGTH)).hidden
    assert states is not None
    return Teacher(model, original["model.embed_tokens.weight"], head, states)


def opened(network: nn.Module, teacher: Teacher, folder: Path) -> OpenDraft:
    """The network itself is rounded as in the file."""
    save(folder / "draft.gguf", network, Target("small", SHAPE), VOCABULARY, {})
    restore(network, read_tensors(folder / "draft.gguf"))
    return open_draft(folder / "draft.gguf", teacher.model, 128)


def rough(network: nn.Module) -> nn.Module:
    """With all weights random, norms included."""
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.ndim == 1 else 0.1))
    return network


def assert_near(found: FloatArray, expected: torch.Tensor) -> None:
    wanted = expected.detach().numpy()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).mean() < NEAR * wanted.std()
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).mean() > 0.8


SIZES = Sizes(hidden=64, layers=2, heads=3, kv_heads=1, mlp=96)


def test_a_draft_model(teacher: Teacher, tmp_path: Path) -> None:
    network = DraftNetwork(SIZES, teacher.embedding, len(VOCABULARY))
    rough(network)
    draft = opened(network, teacher, tmp_path)
    found = draft.network.forward(tokens(LENGTH), range(LENGTH)).logits
    assert_near(found, network.head(network.hidden(torch.tensor([tokens(LENGTH)])))[0])


def test_an_eagle(teacher: Teacher, tmp_path: Path) -> None:
    """With the target's states up to a place, and its own behind."""
    network = EagleNetwork(DraftNetwork(SIZES, teacher.embedding, len(VOCABULARY)), SHAPE.hidden)
    rough(network)
    draft, known = opened(network, teacher, tmp_path), LENGTH - 3
    guesser = Eagle("eagle", draft.network, VOCABULARY, Norm.of(teacher.model), Norm.of(draft.network), SHAPE.hidden)
    guesser.begin(tokens(LENGTH)[: known + 1])
    guesser.read(0, tokens(LENGTH)[:known], Pass(np.empty((0, 0), np.float32), lambda: teacher.states[:known]))
    first = guesser.follow()
    assert first is not None
    told = [first[0].copy()]
    for count in (1, 2):
        behind = guesser.expand(tokens(LENGTH)[known + 1 : known + 1 + count], range(-1, count - 1), 1)
        told.append(behind[0].copy())
    states = teacher.head.states(torch.from_numpy(teacher.states))[None]
    made = network.guesses(torch.tensor([tokens(LENGTH)[1:]]), states[:, :-1], 3)
    for guess, found in enumerate(told):
        wanted = network.draft.head(made[guess][0, known - 1 + guess]).detach().numpy()
        assert np.abs(found - wanted).mean() < NEAR * wanted.std()


def test_medusa(teacher: Teacher, tmp_path: Path) -> None:
    network = MedusaHeads(SHAPE.hidden, heads=3)
    rough(network)
    heads = RunningHeads(opened(network, teacher, tmp_path))
    states = teacher.head.states(torch.from_numpy(teacher.states))
    expected = teacher.head.logits(network(states[None]))[0]
    for state, wanted in zip(teacher.states, expected, strict=True):
        assert np.abs(heads(state) - wanted.detach().numpy()).mean() < NEAR * expected.std().item()


@pytest.mark.parametrize("kind", ["draft-model", "eagle", "medusa"])
def test_a_network_is_restored_as_it_was_saved(kind: str, teacher: Teacher, tmp_path: Path) -> None:
    draft = DraftNetwork(SIZES, teacher.embedding, len(VOCABULARY))
    network = {"draft-model": draft, "eagle": EagleNetwork(draft, 96), "medusa": MedusaHeads(96, heads=3)}[kind]
    rough(network)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    opened(network, teacher, tmp_path)
    for name, parameter in network.named_parameters():
        assert (parameter - before[name]).abs().mean() <= NEAR * before[name].abs().mean()


def test_what_is_no_draft_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Linear is no draft"):
        save(tmp_path / "draft.gguf", nn.Linear(2, 2), Target("small", SHAPE), VOCABULARY, {})
