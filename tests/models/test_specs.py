"""What a checkpoint's files say of it becomes the right spec."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ghostdraft.models import registry, specs, tokenizer_files
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.gguf_header import read_header
from ghostdraft.models.safetensors_header import read_shapes
from ghostdraft.models.types import ModelSpec, RopeScaling, Shape, WeightsCorrupt
from tests.models.published import HEADS, HIDDEN, MLP, VOCAB, gguf_file, safetensors_folder

END, PREFIX, SUFFIX, MIDDLE, REPO, FILE = range(len(VOCAB) - 6, len(VOCAB))


def from_gguf(path: Path, name: str = "mine") -> ModelSpec:
    header = read_header(path)
    return specs.describe(name, specs.facts_from_gguf(header, path), tokenizer_files.from_gguf(header))


def from_folder(folder: Path, name: str = "mine") -> ModelSpec:
    facts = specs.facts_from_config(folder, read_shapes(folder / "model.safetensors"), (name,))
    return specs.describe(name, facts, tokenizer_files.from_published(folder / "tokenizer.json"))


def test_spec_of_starter(starter: Checkpoint) -> None:
    spec = starter.spec
    assert spec.shape == Shape(
        "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1_000_000.0, 1e-6, qkv_bias=True, tied=False
    )
    assert (spec.fim, spec.fim_source) == (registry.QWEN25.fim, "registry")
    assert {151643, 151645, 151659, 151660, 151661, 151662, 151663, 151664} == set(spec.stop_tokens)
    assert set(spec.stop_tokens) < set(spec.special_tokens)
    assert (spec.repo_token, spec.file_token, spec.bos_token) == ("<|repo_name|>", "<|file_sep|>", None)
    assert spec.licence == "Apache-2.0"


def test_spec_of_tiny(tiny: Checkpoint) -> None:
    spec = tiny.spec
    assert spec.shape == Shape(
        "llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, 100_000.0, 1e-5, qkv_bias=False, tied=True
    )
    assert (spec.fim, spec.fim_source) == ((), "none")
    assert {0, 2} <= set(spec.stop_tokens)
    assert (spec.repo_token, spec.file_token) == ("<repo_name>", "<file_sep>")


@pytest.mark.parametrize("kind", ["gguf", "folder"])
def test_an_unknown_model_gets_its_fim_tokens_from_its_tokenizer(tmp_path: Path, kind: str) -> None:
    spec = from_gguf(gguf_file(tmp_path / "a.gguf")) if kind == "gguf" else from_folder(safetensors_folder(tmp_path))
    (template,) = spec.fim
    assert spec.fim_source == "tokenizer"
    assert template.parts == ("<|fim_prefix|>", "{prefix}", "<|fim_suffix|>", "{suffix}", "<|fim_middle|>")
    assert spec.stop_tokens == (END, PREFIX, SUFFIX, MIDDLE, REPO, FILE)
    assert spec.special_tokens == spec.stop_tokens
    assert spec.shape == Shape(
        "llama", 1, HIDDEN, HEADS, HEADS, HIDDEN // HEADS, MLP, len(VOCAB), 512, 10_000.0, 1e-6, False, tied=True
    )


def test_a_gguf_file_may_name_its_fim_tokens(tmp_path: Path) -> None:
    ids = {f"tokenizer__ggml__fim_{part}_token_id": id_ for part, id_ in (("pre", REPO), ("suf", FILE), ("mid", END))}
    (template,) = from_gguf(gguf_file(tmp_path / "a.gguf", **ids)).fim
    assert template.parts == ("<repo_name>", "{prefix}", "<file_sep>", "{suffix}", "<|endoftext|>")


def test_a_family_is_recognised_by_the_name_in_the_file(tmp_path: Path) -> None:
    spec = from_gguf(gguf_file(tmp_path / "a.gguf", name="Qwen2.5 Coder 3B"))
    assert (spec.fim, spec.fim_source) == (registry.QWEN25.fim, "registry")


def test_a_family_whose_tokens_are_missing_gets_none(tmp_path: Path) -> None:
    spec = from_gguf(gguf_file(tmp_path / "codellama-34b.gguf"))
    assert (spec.fim, spec.fim_source) == ((), "none")


@pytest.mark.parametrize(
    ("more", "architecture"),
    [
        ({"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": 4.0}, "llama with scaled RoPE"),
        ({"llama__rope__scaling__type": "none", "llama__rope__scaling__factor": 4.0}, "llama"),
        ({"llama__expert_count": 8}, "llama with experts"),
        ({"architecture": "gemma"}, "gemma in a GGUF file"),
        ({"architecture": "starcoder2"}, "starcoder2 in a GGUF file"),
    ],
)
def test_gguf_shapes_that_differ_are_named_apart(tmp_path: Path, more: dict[str, Any], architecture: str) -> None:
    assert from_gguf(gguf_file(tmp_path / "a.gguf", **more)).shape.architecture == architecture


@pytest.mark.parametrize(
    ("changes", "architecture"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "llama with dynamic RoPE"),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, "llama"),
        ({"rope_scaling": {"rope_type": "default"}}, "llama"),
        ({"partial_rotary_factor": 0.5}, "llama with partial RoPE"),
        ({"hidden_act": "relu"}, "llama with relu activation"),
        ({"hidden_act": "silu"}, "llama"),
        ({"model_type": "gemma", "hidden_act": "gelu"}, "gemma"),
        ({"model_type": "gemma", "hidden_act": "silu"}, "gemma with silu activation"),
        ({"model_type": "qwen3_moe", "hidden_act": "relu"}, "qwen3_moe"),
        ({"rope_scaling": None, "model_type": "mistral"}, "llama"),
        ({"model_type": "starcoder2"}, "starcoder2"),
    ],
)
def test_config_shapes_that_differ_are_named_apart(tmp_path: Path, changes: dict[str, Any], architecture: str) -> None:
    assert from_folder(safetensors_folder(tmp_path, **changes)).shape.architecture == architecture


@pytest.mark.parametrize(
    ("rope", "scaling"),
    [
        ({"type": "linear", "factor": 4}, RopeScaling("linear", 4.0)),
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
            RopeScaling("llama3", 8.0, 512, 1.0, 4.0),
        ),
        (
            {"type": "yarn", "original_max_position_embeddings": 128, "attention_factor": 1.5},
            RopeScaling("yarn", 4.0, 128, 1.0, 32.0, 1.5),
        ),
        (
            {"type": "yarn", "factor": 4, "mscale": 1.0, "mscale_all_dim": 1.0, "truncate": False, "beta_fast": 16},
            RopeScaling("yarn", 4.0, 512, 1.0, 16.0, 1.0, truncate=False),
        ),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_scaled_rope_is_read(tmp_path: Path, key: str, rope: dict[str, Any], scaling: RopeScaling) -> None:
    assert from_folder(safetensors_folder(tmp_path, **{key: rope})).shape.rope_scaling == scaling


@pytest.mark.parametrize(
    ("changes", "window", "layers"),
    [
        ({"model_type": "mistral", "sliding_window": 64}, 64, (0, 1, 2, 3)),
        ({"model_type": "mistral", "sliding_window": 512}, None, ()),
        ({"model_type": "mistral", "sliding_window": None}, None, ()),
        ({"model_type": "mistral", "max_position_embeddings": 8192}, 4096, (0, 1, 2, 3)),
        ({"model_type": "starcoder2", "sliding_window": 64}, 64, (0, 1, 2, 3)),
        ({"model_type": "gemma2", "sliding_window": 64}, 64, (0, 2)),
        ({"model_type": "qwen2", "sliding_window": 64}, None, ()),
        ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True}, None, ()),
        (
            {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3},
            64,
            (3,),
        ),
        (
            {"model_type": "mistral", "sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"] * 2},
            64,
            (1, 3),
        ),
    ],
)
def test_sliding_windows_are_read(
    tmp_path: Path, changes: dict[str, Any], window: int | None, layers: tuple[int, ...]
) -> None:
    shape = from_folder(safetensors_folder(tmp_path, num_hidden_layers=4, **changes)).shape
    assert (shape.window, shape.sliding_layers) == (window, layers)


def test_a_manifest_of_before_has_a_plain_shape() -> None:
    shape = Shape("llama", 1, 64, 2, 2, 32, 96, 97, 512, 1e4, 1e-6, qkv_bias=False, tied=True)
    more = ("out_bias", "mlp_bias", "rope_scaling", "window", "sliding_layers", "query_scalar")
    caps = ("attention_cap", "logit_cap")
    assert Shape.of({key: value for key, value in asdict(shape).items() if key not in more + caps}) == shape


@pytest.mark.parametrize("changes", [{"rope_theta": 5e5}, {"rope_parameters": {"rope_theta": 5e5}}])
def test_both_ways_to_write_theta_are_read(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert from_folder(safetensors_folder(tmp_path, **changes)).shape.rope_theta == 5e5


def test_bos_is_taken_where_the_tokenizer_adds_it(tmp_path: Path) -> None:
    assert from_gguf(gguf_file(tmp_path / "plain.gguf")).bos_token is None
    assert from_gguf(gguf_file(tmp_path / "a.gguf", tokenizer__ggml__add_bos_token=True)).bos_token == END
    folder = safetensors_folder(tmp_path, bos_token_id=3)
    assert from_folder(folder).bos_token is None
    (folder / "tokenizer_config.json").write_text('{"add_bos_token": true}', "utf-8")
    assert from_folder(folder).bos_token == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": -2},
        {"num_attention_heads": "many"},
        {"hidden_size": 1.5},
        {"num_hidden_layers": True},
        {"num_key_value_heads": [1]},
        {"rope_theta": "high"},
        {"rope_parameters": "none"},
        {"rms_norm_eps": -1e-6},
        {"eos_token_id": "</s>"},
        {"hidden_size": 2 * HIDDEN},
        {"vocab_size": 10},
        {"head_dim": HIDDEN},
        {"num_key_value_heads": 1},
        {"intermediate_size": 2 * MLP},
        {"rope_scaling": {"type": "linear"}},
        {"rope_scaling": {"type": "linear", "factor": -4.0}},
        {"rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}},
        {"rope_scaling": {"type": "yarn", "factor": "four"}},
        {"rope_scaling": {"type": "yarn", "original_max_position_embeddings": 0.5}},
        {"model_type": "mistral", "sliding_window": 0},
        {"model_type": "mistral", "sliding_window": 64, "layer_types": ["full_attention"] * 2},
        {"model_type": "mistral", "sliding_window": 64, "layer_types": ["chunked_attention"]},
        {"model_type": "gemma2", "attn_logit_softcapping": 0.0},
    ],
)
def test_a_config_of_no_model_that_can_be_is_told(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(WeightsCorrupt, match=r"config\.json"):
        from_folder(safetensors_folder(tmp_path, **changes))


@pytest.mark.parametrize(
    "more",
    [
        {"llama__attention__key_length": 0},
        {"llama__attention__key_length": HIDDEN},
        {"tokenizer__ggml__eot_token_id": "end"},
    ],
)
def test_a_gguf_file_of_no_model_that_can_be_is_told(tmp_path: Path, more: dict[str, Any]) -> None:
    path = gguf_file(tmp_path / "a.gguf", **more)
    with pytest.raises(WeightsCorrupt, match=r"a\.gguf"):
        from_gguf(path)


@pytest.mark.parametrize("text", [None, "{", "{}", '{"model_type": "llama"}'])
def test_a_config_that_says_too_little_is_told(tmp_path: Path, text: str | None) -> None:
    folder = safetensors_folder(tmp_path)
    (folder / "config.json").unlink()
    if text is not None:
        (folder / "config.json").write_text(text, "utf-8")
    with pytest.raises(WeightsCorrupt, match=r"config\.json"):
        from_folder(folder)
