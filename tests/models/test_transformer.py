"""The PyTorch transformer against transformers' own models, and its cache against itself run afresh."""

from __future__ import annotations

import json.encoder
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from ghostdraft.models import tokenizer
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.reference import HuggingFaceModel
from ghostdraft.models.tensors import read_tensors
from ghostdraft.models.transformer import TorchModel, Transformer
from ghostdraft.models.types import EngineUnavailable, Interrupted, OutOfMemory, WeightsCorrupt, WeightsTooLarge
from tests.models.small_models import VOCAB, extend, hugging_face, ours, paths, run, shape, stored, tokens, trees

CLOSE = 1e-4  # between two runs of ours, which sum in other orders; logits are of the order of 1


@pytest.fixture(scope="module")
def small() -> Transformer:
    return ours(shape(), context=128)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_those_of_transformers(architecture: str, kv_heads: int, tied: bool) -> None:
    of = shape(architecture, kv_heads=kv_heads, tied=tied)
    with torch.inference_mode():
        expected = hugging_face(of)(torch.tensor([tokens(100)])).logits[0].numpy()
    np.testing.assert_allclose(run(ours(of), tokens(100)), expected, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_logits_of_a_gguf_file_equal_those_of_transformers(tiny: Checkpoint) -> None:
    code = Path(json.encoder.__file__).read_text("utf-8")
    token_ids = np.array(tokenizer.load(tiny.tokenizer_path).encode(code)[:300], np.int32)
    expected = HuggingFaceModel(tiny).logits(token_ids)
    logits = run(TorchModel(tiny, context=300), token_ids.tolist(), chunk=300)
    np.testing.assert_allclose(logits, expected, atol=1e-4, rtol=0)


def test_bfloat16_stays_near_float32(small: Transformer) -> None:
    difference = run(ours(shape(), dtype="bfloat16"), tokens(50)) - run(small, tokens(50))
    assert 0 < np.abs(difference).mean() < 0.05


def test_only_the_rows_asked_for_give_logits(small: Transformer) -> None:
    everything = run(small, tokens(9))
    small.truncate(0)
    some = small.forward(tokens(9), [7, 2]).logits
    np.testing.assert_allclose(some, everything[[7, 2]], atol=CLOSE)
    assert small.forward(tokens(9)).logits.shape == (0, VOCAB)


@given(chunk=st.integers(1, 40))
@settings(max_examples=15, deadline=None)
def test_chunking_changes_nothing(small: Transformer, chunk: int) -> None:
    np.testing.assert_allclose(run(small, tokens(40), chunk), run(small, tokens(40)), atol=CLOSE)


@given(parents=trees, before=st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_a_row_of_a_tree_equals_its_own_line(small: Transformer, parents: tuple[int, ...], before: int) -> None:
    prompt, drafted = tokens(before), tokens(len(parents), seed=1)
    small.truncate(0)
    if prompt:
        extend(small, prompt)
    logits = small.forward(drafted, range(len(parents)), parents).logits
    for row, path in enumerate(paths(parents)):
        line = run(small, prompt + [drafted[i] for i in path])
        np.testing.assert_allclose(logits[row], line[-1], atol=CLOSE)


@given(parents=trees, data=st.data())
@settings(max_examples=20, deadline=None)
def test_keeping_a_path_equals_a_fresh_run(small: Transformer, parents: tuple[int, ...], data: st.DataObject) -> None:
    prompt, drafted, rest = tokens(6), tokens(len(parents), seed=1), tokens(5, seed=2)
    path = data.draw(st.sampled_from([[], *paths(parents)]))
    run(small, prompt)
    small.forward(drafted, parents=parents)
    small.keep(path)
    assert small.length == len(prompt) + len(path)
    after = small.forward(rest, range(len(rest))).logits
    fresh = run(small, prompt + [drafted[i] for i in path] + rest)
    np.testing.assert_allclose(after, fresh[-len(rest) :], atol=CLOSE)


@given(length=st.integers(0, 20))
@settings(max_examples=10, deadline=None)
def test_truncating_equals_a_fresh_run(small: Transformer, length: int) -> None:
    prompt, rest = tokens(20), tokens(5, seed=2)
    run(small, prompt)
    small.truncate(length)
    after = small.forward(rest, range(5)).logits
    np.testing.assert_allclose(after, run(small, prompt[:length] + rest)[-5:], atol=CLOSE)


@given(length=st.integers(0, 20), other=st.integers(1, 40))
@settings(max_examples=10, deadline=None)
def test_a_saved_cache_equals_a_fresh_run(small: Transformer, length: int, other: int) -> None:
    start, rest = tokens(length), tokens(5, seed=2)
    small.truncate(0)
    if start:
        extend(small, start)
    state = small.save()
    run(small, tokens(other, seed=3))
    small.restore(state)
    assert small.length == length
    after = small.forward(rest, range(5)).logits
    np.testing.assert_allclose(after, run(small, start + rest)[-5:], atol=CLOSE)


def test_rows_that_were_not_kept_leave_no_trace(small: Transformer) -> None:
    run(small, tokens(10))
    expected = small.forward([3], [0]).logits
    small.forward(tokens(30, seed=5))
    np.testing.assert_allclose(small.forward([3], [0]).logits, expected, atol=CLOSE)
    assert small.length == 10


def test_an_interrupted_pass_leaves_no_trace(small: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    run(small, tokens(4))
    expected = small.forward(tokens(8)[4:], range(4)).logits
    mlp = small._mlp
    monkeypatch.setattr(small, "_mlp", lambda *layer: (small.interrupt(), mlp(*layer))[1])
    with pytest.raises(Interrupted):
        small.forward(tokens(8)[4:])
    monkeypatch.undo()
    with pytest.raises(ValueError, match="path"):
        small.keep([0])
    assert small.length == 4
    assert np.array_equal(small.forward(tokens(8)[4:], range(4)).logits, expected)


def test_the_cache_can_be_filled_to_the_last_token(small: Transformer) -> None:
    full = run(small, tokens(128))
    assert small.length == small.context == 128
    np.testing.assert_allclose(run(small, tokens(128), chunk=50), full, atol=CLOSE)
    with pytest.raises(ValueError, match="context"):
        small.forward([1])


@pytest.mark.parametrize(("count", "parents"), [(0, None), (129, None), (3, [-1, 0]), (2, [-1, 1]), (2, [-2, 0])])
def test_rows_that_cannot_be_run_are_refused(small: Transformer, count: int, parents: list[int] | None) -> None:
    small.truncate(0)
    with pytest.raises(ValueError):
        small.forward(tokens(count), parents=parents)


def test_context_is_never_longer_than_the_model_was_made_for() -> None:
    assert ours(shape(), context=10_000).context == shape().context


def test_safetensors_load_as_they_were_written(tmp_path: Path) -> None:
    of = shape(tied=False)
    state = hugging_face(of).state_dict()
    names, files = sorted(state), [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for path, some in zip(files, (names[::2], names[1::2]), strict=True):
        save_file({name: state[name] for name in some}, path)
    loaded = Transformer(of, read_tensors(files, of))
    assert np.array_equal(run(loaded, tokens(30)), run(ours(of), tokens(30)))


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    checkpoint = stored(shape(), tmp_path)
    path = checkpoint.weights[0]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WeightsCorrupt, match=r"model\.safetensors"):
        TorchModel(checkpoint)


def test_missing_and_misshapen_tensors_are_named() -> None:
    state = hugging_face(shape()).state_dict()
    with pytest.raises(WeightsCorrupt, match=r"model\.norm\.weight is missing"):
        Transformer(shape(), {name: value for name, value in state.items() if name != "model.norm.weight"})
    with pytest.raises(WeightsCorrupt, match=r"model\.norm\.weight is \[7\]"):
        Transformer(shape(), {**state, "model.norm.weight": torch.zeros(7)})


def test_what_cannot_run_here_says_so() -> None:
    with pytest.raises(EngineUnavailable, match="qwen3_moe"):
        Transformer(shape("qwen3_moe"), {})
    with pytest.raises(EngineUnavailable, match="abacus"):
        Transformer(shape(), {}, device="abacus")


@pytest.mark.parametrize("word", [torch.OutOfMemoryError("full"), RuntimeError("MPS backend out of memory")])
def test_a_full_memory_is_told(word: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise word

    state = hugging_face(shape()).state_dict()
    monkeypatch.setattr(torch, "zeros", full)
    with pytest.raises(OutOfMemory, match="a context of 256 tokens"):
        Transformer(shape(), state)
    with pytest.raises(WeightsTooLarge):
        Transformer(shape(), state, packing=full)


def test_a_closed_model_holds_no_tensors() -> None:
    model = ours(shape())
    kept = [
        weakref.ref(tensor) for tensor in (model._keys, model._weights.embedding, model._weights.layers[0].up.weight)
    ]
    model.close()
    assert [ref() for ref in kept] == [None] * 3


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_gpu_agrees_with_the_cpu(small: Transformer, device: str) -> None:
    if not {"cuda": torch.cuda, "mps": torch.mps}[device].is_available():
        pytest.skip(f"no {device} device")
    np.testing.assert_allclose(run(ours(shape(), device=device), tokens(100)), run(small, tokens(100)), atol=1e-3)
