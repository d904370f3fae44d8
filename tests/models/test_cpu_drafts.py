"""Drafts beside their target: what does not fit it, or itself, is refused before the engine reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ghostdraft.drafting.train.export import Target as Wanted
from ghostdraft.drafting.train.export import save
from ghostdraft.models.cpu import drafts
from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.cpu.drafts import Norm, StateHead, open_draft, reduced_head
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.cpu.sources import GgufSource, Name
from ghostdraft.models.draft_file import DraftHeader, DraftKind, read_draft
from ghostdraft.models.types import FloatArray, Shape, WeightsCorrupt
from tests.drafting.lossless.cast import Cast, hire
from tests.models.small_models import shape, stored, tokens

CONTEXT = 128


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Cast:
    return hire(shape("qwen2"), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def target(small: Cast) -> CpuModel:
    return small.target()


def path_of(small: Cast, kind: DraftKind) -> Path:
    return small.home / "models" / "small" / "drafts" / f"{kind}.gguf"


def model_of(of: Shape, folder: Path) -> CpuModel:
    checkpoint = stored(of, folder)
    convert(checkpoint)
    return CpuModel(checkpoint.cpu_weights, CONTEXT, threads=1)


@pytest.mark.parametrize("kind", DraftKind)
def test_a_draft_tells_logits_of_its_vocabulary(kind: DraftKind, small: Cast, target: CpuModel) -> None:
    draft = open_draft(path_of(small, kind), target, CONTEXT)
    assert draft.header.kind is kind
    assert draft.network.weights.head.rows == len(draft.vocabulary) == 60
    draft.close()


@pytest.mark.parametrize("kind", DraftKind)
@pytest.mark.parametrize("other", [replace(shape("qwen2"), hidden=128), replace(shape("qwen2"), vocab=101)])
def test_another_target_is_refused(kind: DraftKind, other: Shape, small: Cast, tmp_path: Path) -> None:
    """Also one whose vocabulary is padded to another size, as in families of models."""
    target = model_of(other, tmp_path)
    with pytest.raises(WeightsCorrupt, match=r"trained for small, which is of another size.*ghostdraft train-draft"):
        open_draft(path_of(small, kind), target, CONTEXT)


def lying(header: DraftHeader, change: str) -> DraftHeader:
    of = header.shape
    match change:
        case "vocabulary":
            return replace(header, vocabulary=header.vocabulary[:-1])
        case "heads of Medusa":
            return replace(header, heads=header.heads + 1)
        case "kv_heads":
            return replace(header, shape=replace(of, kv_heads=of.heads))
        case "layers":
            return replace(header, shape=replace(of, layers=of.layers + 1))
        case "kind":
            kinds = list(DraftKind)
            return replace(header, kind=kinds[(kinds.index(header.kind) + 1) % len(kinds)])
        case _:
            return replace(header, shape=replace(of, **{change: 2 * getattr(of, change)}))


OF_NETWORKS = ("hidden", "heads", "kv_heads", "head_dim", "mlp", "layers", "kind")
LIES = [
    *((DraftKind.DRAFT_MODEL, change) for change in (*OF_NETWORKS, "vocabulary")),
    *((DraftKind.EAGLE, change) for change in OF_NETWORKS),
    *((DraftKind.MEDUSA, change) for change in ("hidden", "heads of Medusa", "kind")),
]


@pytest.mark.parametrize(("kind", "change"), LIES)
def test_tensors_of_other_sizes_than_the_header_says_are_refused(
    kind: DraftKind, change: str, small: Cast, target: CpuModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "read_draft", lambda path: lying(read_draft(path), change))
    with pytest.raises(WeightsCorrupt, match="ghostdraft train-draft"):
        open_draft(path_of(small, kind), target, CONTEXT)


@pytest.mark.parametrize("kind", DraftKind)
@pytest.mark.parametrize("known", [[], [5, 4], [4, 4], [-1, 4], [4, 97], [[4, 5]]])
def test_a_vocabulary_that_the_target_has_not_is_refused(
    kind: DraftKind, known: list[int], small: Cast, target: CpuModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> DraftHeader:
        return replace(read_draft(path), vocabulary=np.array(known, np.int32))

    monkeypatch.setattr(drafts, "read_draft", read)
    with pytest.raises(WeightsCorrupt, match="ghostdraft train-draft"):
        open_draft(path_of(small, kind), target, CONTEXT)


@pytest.mark.parametrize("kind", DraftKind)
def test_a_tensor_that_is_missing_is_named(
    kind: DraftKind, small: Cast, target: CpuModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = GgufSource.size

    def forgetful(source: GgufSource, name: Name) -> tuple[int, int]:
        source._tensors.pop(name.of_gguf(), None)
        return size(source, name)

    monkeypatch.setattr(GgufSource, "size", forgetful)
    with pytest.raises(WeightsCorrupt, match=r"no tensor .*ghostdraft train-draft"):
        open_draft(path_of(small, kind), target, CONTEXT)


def test_a_head_of_some_tokens_says_of_states_what_the_target_says(target: CpuModel) -> None:
    some = np.array([3, 50, 96], np.int32)
    target.truncate(0)
    result = target.forward(tokens(20), range(20))
    logits, states = result.logits.copy(), result.hidden
    assert states is not None
    assert (StateHead(reduced_head(target, some))(states) == logits[:, some]).all()


@pytest.fixture
def states() -> FloatArray:
    return np.random.default_rng(0).normal(size=(7, 96)).astype(np.float32)


def test_a_norm_is_of_each_state_by_itself(states: FloatArray) -> None:
    norm = Norm(np.linspace(0.5, 1.5, 96, dtype=np.float32), 1e-6)
    expected = states / np.sqrt((states**2).mean(axis=1, keepdims=True) + 1e-6) * norm.weight
    np.testing.assert_allclose(norm(states), expected, rtol=1e-5)
    assert all((norm(states)[i] == norm(states[i])).all() for i in range(7))
    assert (norm(states)[2:4] == norm(states[2:4])).all()


def test_a_draft_may_know_every_token(small: Cast, target: CpuModel, tmp_path: Path) -> None:
    from tests.drafting.lossless.cast import random_networks

    of = small.checkpoint.spec.shape
    network = random_networks(of, of.vocab)[DraftKind.DRAFT_MODEL]
    save(tmp_path / "all.gguf", network, Wanted("small", of), np.arange(of.vocab, dtype=np.int32), {})
    draft = open_draft(tmp_path / "all.gguf", target, CONTEXT)
    assert draft.network.forward(tokens(5), [4]).logits.shape == (1, of.vocab)
