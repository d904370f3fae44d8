"""The table of known models is whole, and names and families are found in it."""

from __future__ import annotations

import re

import pytest

from ghostdraft.models import registry
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


def test_the_hub_is_asked_first() -> None:
    assert [type(source) for source in MODELS["starter"].sources] == [Hub, Packages]
    assert registry.DEFAULT in MODELS


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
