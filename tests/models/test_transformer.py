"""The PyTorch transformer against transformers' own models, and its cache against itself run afresh."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from ghostdraft.models.tensors import read_tensors
from ghostdraft.models.transformer import Transformer
from ghostdraft.models.types import EngineUnavailable, FloatArray, Shape, WeightsCorrupt

VOCAB = 97
CLOSE = 1e-4  # between two runs of ours, which sum in other orders; logits are of the order of 1


def sizes(kv_heads: int, tied: bool) -> dict[str, object]:
    return {
        "vocab_size": VOCAB,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 256,
        "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0},
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": tied,
        "initializer_range": 0.2,
    }


def peer(architecture: str, kv_heads: int = 2, tied: bool = True) -> PreTrainedModel:
    """A small random model of transformers, biases and norms included."""
    torch.manual_seed(kv_heads)
    options = sizes(kv_heads, tied)
    model = (
        LlamaForCausalLM(LlamaConfig(**options))
        if architecture == "llama"
        else Qwen2ForCausalLM(Qwen2Config(**options))
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def shape_of(model: PreTrainedModel, architecture: str) -> Shape:
    config = model.config
    return Shape(
        architecture=architecture,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.hidden_size // config.num_attention_heads,
        mlp=config.intermediate_size,
        vocab=config.vocab_size,
        context=config.max_position_embeddings,
        rope_theta=50_000.0,
        rms_eps=config.rms_norm_eps,
        qkv_bias=architecture == "qwen2",
        tied=config.tie_word_embeddings,
    )


def ours(model: PreTrainedModel, architecture: str, **options: object) -> Transformer:
    return Transformer(shape_of(model, architecture), model.state_dict(), **options)


@pytest.fixture(scope="module")
def small() -> Transformer:
    return ours(peer("qwen2"), "qwen2", context=128)


def tokens(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, count).tolist()


def run(model: Transformer, token_ids: Sequence[int], chunk: int = 512) -> FloatArray:
    """From an empty cache, kept: the logits [n, vocab]."""
    model.truncate(0)
    parts = []
    for at in range(0, len(token_ids), chunk):
        rows = range(len(token_ids[at : at + chunk]))
        parts.append(model.forward(token_ids[at : at + chunk], rows).logits)
        model.keep(rows)
    return np.concatenate(parts)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_those_of_transformers(architecture: str, kv_heads: int, tied: bool) -> None:
    model = peer(architecture, kv_heads, tied)
    token_ids = tokens(100)
    with torch.inference_mode():
        expected = model(torch.tensor([token_ids])).logits[0].numpy()
    np.testing.assert_allclose(run(ours(model, architecture), token_ids), expected, atol=1e-4, rtol=0)


def test_bfloat16_stays_near_float32(small: Transformer) -> None:
    rounded = ours(peer("qwen2"), "qwen2", dtype="bfloat16")
    difference = run(rounded, tokens(50)) - run(small, tokens(50))
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


def paths(parents: Sequence[int]) -> list[list[int]]:
    """For each row, the rows from the root to it."""
    found: list[list[int]] = []
    for row, parent in enumerate(parents):
        found.append([*(found[parent] if parent >= 0 else []), row])
    return found


trees = st.integers(1, 12).flatmap(lambda n: st.tuples(*(st.integers(-1, row - 1) for row in range(n))))


@given(parents=trees, before=st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_a_row_of_a_tree_equals_its_own_line(small: Transformer, parents: tuple[int, ...], before: int) -> None:
    prompt, drafted = tokens(before), tokens(len(parents), seed=1)
    small.truncate(0)
    for token in prompt:
        small.forward([token])
        small.keep([0])
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


def test_rows_that_were_not_kept_leave_no_trace(small: Transformer) -> None:
    run(small, tokens(10))
    expected = small.forward([3], [0]).logits
    small.forward(tokens(30, seed=5))
    np.testing.assert_allclose(small.forward([3], [0]).logits, expected, atol=CLOSE)
    assert small.length == 10


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


@pytest.mark.parametrize("rows", [[1], [0, 2], [0, 1, 3], [1, 0], [0, 0], [4], [-1]])
def test_rows_that_are_no_path_are_refused(small: Transformer, rows: list[int]) -> None:
    small.truncate(0)
    small.forward(tokens(4), parents=[-1, 0, 1, 1])
    small.forward(tokens(4), parents=[-1, 0, -1, 2])
    with pytest.raises(ValueError, match="path"):
        small.keep(rows)
    assert small.length == 0


def test_keep_needs_a_pass_and_truncate_a_cache(small: Transformer) -> None:
    run(small, tokens(3))
    with pytest.raises(ValueError, match="path"):
        small.keep([0])
    with pytest.raises(ValueError, match="truncate"):
        small.truncate(4)


def test_context_is_never_longer_than_the_model_was_made_for() -> None:
    assert ours(peer("llama"), "llama", context=10_000).context == 256


def test_safetensors_load_as_they_were_written(tmp_path: Path) -> None:
    model = peer("qwen2", tied=False)
    state = model.state_dict()
    names = sorted(state)
    save_file({name: state[name] for name in names[::2]}, tmp_path / "a.safetensors")
    save_file({name: state[name] for name in names[1::2]}, tmp_path / "b.safetensors")
    shape = shape_of(model, "qwen2")
    loaded = Transformer(shape, read_tensors([tmp_path / "a.safetensors", tmp_path / "b.safetensors"], shape))
    assert np.array_equal(run(loaded, tokens(30)), run(ours(model, "qwen2"), tokens(30)))


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(peer("llama", tied=False).state_dict(), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WeightsCorrupt, match=r"model\.safetensors"):
        read_tensors([path], shape_of(peer("llama"), "llama"))


def test_missing_and_misshapen_tensors_are_named() -> None:
    model = peer("llama")
    state, shape = model.state_dict(), shape_of(model, "llama")
    with pytest.raises(WeightsCorrupt, match=r"model\.norm\.weight is missing"):
        Transformer(shape, {name: value for name, value in state.items() if name != "model.norm.weight"})
    with pytest.raises(WeightsCorrupt, match=r"model\.norm\.weight is \[7\]"):
        Transformer(shape, {**state, "model.norm.weight": torch.zeros(7)})


def test_what_cannot_run_here_says_so() -> None:
    model = peer("llama")
    with pytest.raises(EngineUnavailable, match="starcoder2"):
        Transformer(shape_of(model, "starcoder2"), model.state_dict())
    with pytest.raises(EngineUnavailable, match="abacus"):
        ours(model, "llama", device="abacus")


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_gpu_agrees_with_the_cpu(small: Transformer, device: str) -> None:
    if not {"cuda": torch.cuda, "mps": torch.mps}[device].is_available():
        pytest.skip(f"no {device} device")
    there = ours(peer("qwen2"), "qwen2", device=device)
    np.testing.assert_allclose(run(there, tokens(100)), run(small, tokens(100)), atol=1e-3)
