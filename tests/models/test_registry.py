"""The table of known models is whole, and names and families are found in it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ghostdraft.models import DEFAULT, registry
from ghostdraft.models.config_shape import config_shape
from ghostdraft.models.cpu.convert import RUNS, covers
from ghostdraft.models.registry import MODELS, Hub, Packages
from ghostdraft.models.types import FimOrder, FimTemplate


def test_every_promised_family_is_there() -> None:
    names = " ".join(MODELS)
    for family in ("qwen2.5-coder-0.5b", "qwen2.5-coder-32b", "qwen3-coder", "starcoder2", "deepseek-coder"):
        assert family in names
    for family in ("codellama", "codegemma", "granite", "codestral", "smollm2"):
        assert family in names


@pytest.mark.parametrize("model", MODELS.values(), ids=str)
def test_lines_of_the_table_are_whole(model: registry.KnownModel) -> None:
    assert model.licence
    assert 0 < model.cpu_memory < model.gpu_memory or model.parameters < 1
    assert model.context >= 2048
    assert all(draft in MODELS and MODELS[draft].parameters < model.parameters for draft in model.drafts)
    assert all(MODELS[draft].family is model.family for draft in model.drafts)
    assert model.sources
    if any(isinstance(source, Packages) for source in model.sources):
        assert model.file is not None
        assert re.fullmatch("[0-9a-f]{64}", model.file.sha256)


_BIASES = ("model.layers.0.self_attn.o_proj.bias", "model.layers.0.mlp.up_proj.bias")
CONFIGS: dict[
    str, tuple[dict[str, Any], tuple[str, ...]]
] = {  # what decides of the publishers' files, and tensors beside
    "deepseek-coder-1.3b": (
        {"model_type": "llama", "head_dim": 128, "rope_scaling": {"factor": 4.0, "type": "linear"}},
        ("lm_head.weight",),
    ),
    "codellama-7b": ({"model_type": "llama", "head_dim": 128, "rope_scaling": None}, ("lm_head.weight",)),
    "granite-3b-code": ({"model_type": "llama", "head_dim": 80, "attention_bias": True, "mlp_bias": True}, _BIASES),
    "codestral-22b": ({"model_type": "mistral", "head_dim": 128, "sliding_window": None}, ("lm_head.weight",)),
    "starcoder2-3b": (
        {"model_type": "starcoder2", "sliding_window": 4096, "hidden_act": "gelu_pytorch_tanh", "use_bias": True},
        ("model.layers.0.mlp.c_fc.bias",),
    ),
    "codegemma-2b": ({"model_type": "gemma", "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh"}, ()),
    "qwen2.5-coder-7b": (
        {"model_type": "qwen2", "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28},
        ("lm_head.weight", "model.layers.0.self_attn.q_proj.bias"),
    ),
    "granite-20b-code": ({"model_type": "gpt_bigcode"}, ()),
    "qwen3-coder-30b": ({"model_type": "qwen3_moe"}, ()),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_engines_are_those_of_the_published_configuration(name: str) -> None:
    known, (config, tensors) = MODELS[name], CONFIGS[name]
    sizes = {"num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 8, "vocab_size": 49152}
    shape = config_shape({"max_position_embeddings": known.context} | sizes | config, dict.fromkeys(tensors, (1,)))
    assert shape.architecture == known.architecture
    assert (covers(shape) is None) == (known.plain and known.architecture in RUNS)


def test_the_hub_is_asked_first() -> None:
    assert [type(source) for source in MODELS["starter"].sources] == [Hub, Packages]
    assert DEFAULT in MODELS


@pytest.mark.parametrize("family", registry.FAMILIES, ids=lambda family: family.name)
def test_templates_hold_prefix_and_suffix_once(family: registry.Family) -> None:
    for template in family.fim:
        assert sorted(part for part in template.parts if "{" in part) == [FimTemplate.PREFIX, FimTemplate.SUFFIX]
        first = next(part for part in template.parts if "{" in part)
        assert (first == FimTemplate.SUFFIX) == (template.order is FimOrder.SUFFIX_FIRST)


def test_qwen_puts_the_suffix_first() -> None:
    first, second = registry.QWEN25.fim
    assert first.parts == ("<|fim_prefix|><|fim_suffix|>", "{suffix}", "<|fim_middle|>", "{prefix}")
    assert second.parts == ("<|fim_prefix|>", "{prefix}", "<|fim_suffix|>", "{suffix}", "<|fim_middle|>")
    assert registry.control_tokens(first) == ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", registry.QWEN25),
        ("Qwen2.5 Coder 0.5B Instruct AWQ", registry.QWEN25),
        ("qwen3-coder-30b-a3b", registry.QWEN3),
        ("codellama/CodeLlama-7b-hf", registry.CODELLAMA),
        ("Code Llama 13B", registry.CODELLAMA),
        ("granite-8b-code-base", registry.GRANITE),
        ("Qwen2.5-7B", None),
        ("my own model", None),
    ],
)
def test_a_family_is_found_in_a_name(name: str, family: registry.Family | None) -> None:
    assert registry.family_of("nothing", name) is family


@pytest.mark.parametrize(
    ("tokens", "prefix"),
    [
        (("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), "<fim_prefix>"),
        (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"), "<|fim_prefix|>"),
        (("▁<PRE>", "▁<SUF>", "▁<MID>"), "▁<PRE>"),
        (("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"), "<｜fim▁begin｜>"),
        (("[SUFFIX]", "[PREFIX]"), "[SUFFIX]"),
    ],
)
def test_templates_are_found_in_a_vocabulary(tokens: tuple[str, ...], prefix: str) -> None:
    (template,) = registry.fim_in_vocabulary({token: id_ for id_, token in enumerate(("other", *tokens))})
    assert template.parts[0] == prefix
    assert registry.fim_in_vocabulary(dict.fromkeys(tokens[1:], 0)) == ()


@pytest.mark.parametrize(
    ("typed", "meant"), [("startr", "starter"), ("Starter", "starter"), ("qwen2.5-coder-7", "qwen2.5-coder-7b")]
)
def test_near_names_are_suggested(typed: str, meant: str) -> None:
    assert registry.suggestions(typed)[0] == meant


def test_nothing_is_suggested_for_a_name_like_none() -> None:
    assert registry.suggestions("zzzzzz") == []
