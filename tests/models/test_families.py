"""Each family of models in the PyTorch transformer, from files that transformers wrote of random models of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from ghostdraft.models import specs
from ghostdraft.models.checkpoint import Checkpoint, SourceFile
from ghostdraft.models.cpu.convert import convert, covers
from ghostdraft.models.gguf_header import read_header
from ghostdraft.models.transformer import TorchModel
from ghostdraft.models.types import EngineUnavailable, ModelSpec, Shape
from tests.models.random_checkpoints import LENGTH, Published, publish
from tests.models.small_models import extend, paths, run, tokens, trees

CLOSE = 1e-4  # logits are of the order of 1
WINDOW = 24


def rope(kind: str, **more: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 5e4, "factor": 4.0, **more}}


CHANGES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-untied": {"tie_word_embeddings": False},
    "llama-biases": {"attention_bias": True, "mlp_bias": True},
    "llama-linear": rope("linear"),
    "llama-llama3": rope("llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32),
    "llama-yarn": rope("yarn", original_max_position_embeddings=32),
    "qwen2-yarn": rope("yarn", original_max_position_embeddings=128, beta_fast=8.0, beta_slow=2.0, truncate=False),
    "mistral": {"sliding_window": WINDOW},
    "qwen2": {},
    "qwen2-windows": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    "qwen3": {"head_dim": 32},
    "qwen3-biases": {"head_dim": 32, "attention_bias": True},
    "starcoder2": {"sliding_window": WINDOW},
    "starcoder2-no-biases": {"use_bias": False, "tie_word_embeddings": False},
    "gemma": {"head_dim": 32, "num_key_value_heads": 1},
    "gemma2": {
        "head_dim": 32,
        "sliding_window": WINDOW,
        "query_pre_attn_scalar": 48,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
}
every_family = pytest.mark.parametrize("family", CHANGES, indirect=True)
examples = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(request.param.partition("-")[0], CHANGES[request.param], tmp_path_factory.mktemp("family"))


@pytest.fixture(scope="module")
def model(family: Published) -> TorchModel:
    return TorchModel(family.checkpoint, context=128)


@every_family
def test_logits_equal_those_of_transformers(family: Published, model: TorchModel) -> None:
    assert 0.3 < np.abs(family.expected).mean() < 10
    for chunk in (LENGTH, 7):
        np.testing.assert_allclose(run(model, tokens(LENGTH), chunk), family.expected, atol=CLOSE, rtol=0)


@every_family
@pytest.mark.parametrize("length", [0, 10, 60])
def test_truncating_equals_transformers_too(family: Published, model: TorchModel, length: int) -> None:
    run(model, tokens(length) + tokens(30, seed=5))
    model.truncate(length)
    after = extend(model, tokens(LENGTH)[length:], chunk=9)
    np.testing.assert_allclose(after, family.expected[length:], atol=CLOSE, rtol=0)


@every_family
@examples
@given(parents=trees, before=st.sampled_from([0, 5, 20, 60]), data=st.data())
def test_a_row_of_a_tree_equals_its_own_line(
    model: TorchModel, parents: tuple[int, ...], before: int, data: st.DataObject
) -> None:
    prompt, drafted, rest = tokens(before), tokens(len(parents), seed=1), tokens(4, seed=2)
    lines = [[drafted[row] for row in path] for path in paths(parents)]
    alone = [run(model, prompt + line)[-1] for line in lines]
    model.truncate(before)
    np.testing.assert_allclose(model.forward(drafted, range(len(parents)), parents).logits, alone, atol=CLOSE)
    kept = data.draw(st.integers(0, len(parents) - 1))
    model.keep(paths(parents)[kept])
    after = extend(model, rest)
    np.testing.assert_allclose(after, run(model, prompt + lines[kept] + rest)[-4:], atol=CLOSE)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"], indirect=True)
def test_logits_of_a_gguf_file_equal_those_of_transformers(family: Published, tmp_path: Path) -> None:
    path = gguf_of(family, tmp_path / "model.gguf")
    shape = specs.facts_from_gguf(read_header(path), path).shape
    assert shape == family.shape
    checkpoint = Checkpoint(tmp_path, ModelSpec("small", "none", shape), (SourceFile(path.name, 0, ""),), "random")
    np.testing.assert_allclose(run(TorchModel(checkpoint), tokens(LENGTH)), family.expected, atol=CLOSE, rtol=0)


def gguf_of(family: Published, path: Path) -> Path:
    shape, writer = family.shape, GGUFWriter(path, family.shape.architecture)
    names = get_tensor_name_map(MODEL_ARCH[shape.architecture.upper()], shape.layers)
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.mlp)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.rms_eps)
    for name, tensor in load_file(family.checkpoint.weights[0]).items():
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")) or name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@every_family
def test_bfloat16_stays_near_float32(family: Published) -> None:
    found = run(TorchModel(family.checkpoint, dtype="bfloat16"), tokens(LENGTH))
    assert np.abs(found - family.expected).mean() < 0.05 * np.abs(family.expected).mean()


# ---- what of the shape counts


WRONG: list[tuple[str, dict[str, Any]]] = [
    *((name, {"rope_scaling": None}) for name in ("llama-linear", "llama-llama3", "llama-yarn", "qwen2-yarn")),
    ("llama-biases", {"out_bias": False}),
    ("llama-biases", {"mlp_bias": False}),
    ("mistral", {"window": WINDOW + 1}),
    ("qwen2-windows", {"sliding_layers": (0, 1, 2)}),
    ("starcoder2", {"sliding_layers": ()}),
    ("gemma2", {"sliding_layers": (1,)}),
    *(("gemma2", {key: None}) for key in ("query_scalar", "attention_cap", "logit_cap")),
    ("gemma", {"architecture": "llama"}),
    ("qwen3", {"architecture": "llama"}),
]
WRONG_SCALING: list[tuple[str, dict[str, Any]]] = [
    *((name, {"factor": 4.1}) for name in ("llama-linear", "llama-llama3", "llama-yarn")),
    ("llama-llama3", {"kind": "yarn"}),
    ("llama-llama3", {"slow": 1.5}),
    ("llama-llama3", {"fast": 5.0}),
    ("llama-yarn", {"kind": "llama3"}),
    ("llama-yarn", {"context": 640}),
    ("llama-yarn", {"attention_factor": 1.0}),
    ("qwen2-yarn", {"truncate": True}),
    ("qwen2-yarn", {"fast": 32.0}),
]


def is_like_transformers(family: Published, shape: Shape) -> bool:
    spec = replace(family.checkpoint.spec, shape=shape)
    found = run(TorchModel(replace(family.checkpoint, spec=spec)), tokens(LENGTH))
    return bool(np.abs(found - family.expected).max() < 10 * CLOSE)


@pytest.mark.parametrize(("family", "changes"), WRONG, indirect=["family"], ids=str)
def test_a_wrong_shape_is_noticed(family: Published, changes: dict[str, Any]) -> None:
    assert is_like_transformers(family, family.shape)
    assert not is_like_transformers(family, replace(family.shape, **changes))


@pytest.mark.parametrize(("family", "changes"), WRONG_SCALING, indirect=["family"], ids=str)
def test_a_wrong_scaling_of_rope_is_noticed(family: Published, changes: dict[str, Any]) -> None:
    assert family.shape.rope_scaling is not None
    wrong = replace(family.shape.rope_scaling, **changes)
    assert not is_like_transformers(family, replace(family.shape, rope_scaling=wrong))


@every_family
def test_the_shape_survives_the_manifest(family: Published) -> None:
    family.checkpoint.save()
    fields = json.loads((family.checkpoint.folder / "checkpoint.json").read_text("utf-8"))["spec"]["shape"]
    assert Shape.of(fields) == family.shape


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("mistral", "sliding window"),
        ("qwen2-windows", "sliding window"),
        ("starcoder2", "starcoder2"),
        ("gemma", "gemma"),
        ("gemma2", "gemma2"),
    ],
    indirect=["family"],
)
def test_the_cpu_engine_refuses_what_it_does_not_cover(family: Published, reason: str) -> None:
    with pytest.raises(EngineUnavailable, match=reason):
        convert(family.checkpoint)


@pytest.mark.parametrize("family", ["llama", "llama-untied", "qwen2"], indirect=True)
def test_the_plain_shapes_name_nothing_more(family: Published) -> None:
    shape = family.shape
    assert (shape.rope_scaling, shape.window, shape.sliding_layers) == (None, None, ())
    assert covers(replace(shape, head_dim=32)) is None
