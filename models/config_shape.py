"""From Hugging Face's config.json, and the names of the tensors beside it, to the shape of the model.

What is read here and how it is meant follows the configurations of transformers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ghostdraft.models.architectures import ARCHITECTURES
from ghostdraft.models.fields import BadFact, count, number
from ghostdraft.models.rope import SCALINGS
from ghostdraft.models.types import RopeScaling, Shape

Config = Mapping[str, Any]
Sizes = Mapping[str, tuple[int, ...]]  # of tensors, by name

_LLAMA_LIKE = {"mistral": "llama"}
_MISTRALS_WINDOW = 4096  # where its config.json names none
_LEGACY_GELU = ("gemma", "gelu")  # which was meant to be the tanh one


_GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "n_positions",
    "intermediate_size": "n_inner",
}


def config_shape(config: Config, tensors: Sizes) -> Shape:
    """Raises BadFact."""
    config = {**{ours: config[theirs] for ours, theirs in _GPT2_NAMES.items() if theirs in config}, **config}
    hidden, heads = count(config, "hidden_size"), count(config, "num_attention_heads")
    layers, context = count(config, "num_hidden_layers"), count(config, "max_position_embeddings")
    architecture, rope = _architecture(config), _rope(config)
    runs = architecture in ARCHITECTURES
    sliding = _sliding_layers(config, layers) if runs and _window(config) < context else ()
    return Shape(
        architecture=architecture,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=count(config, "num_key_value_heads", heads),
        head_dim=count(config, "head_dim", hidden // heads),
        mlp=count(config, "intermediate_size", 4 * hidden),
        vocab=count(config, "vocab_size"),
        context=context,
        rope_theta=number(config.get("rope_theta") or rope.get("rope_theta") or 10000.0, "rope_theta"),
        rms_eps=number(config.get("rms_norm_eps") or config.get("norm_epsilon") or 1e-5, "rms_norm_eps"),
        qkv_bias=_has(tensors, "self_attn.q_proj.bias"),
        tied=not any(name.startswith("lm_head.") for name in tensors),
        out_bias=_has(tensors, "self_attn.o_proj.bias"),
        mlp_bias=_has(tensors, "mlp.up_proj.bias") or _has(tensors, "mlp.c_fc.bias"),
        rope_scaling=_rope_scaling(config, rope) if runs else None,
        window=int(_window(config)) if sliding else None,
        sliding_layers=sliding,
        query_scalar=_optional(config, "query_pre_attn_scalar"),
        attention_cap=_optional(config, "attn_logit_softcapping"),
        logit_cap=_optional(config, "final_logit_softcapping"),
    )


def _has(tensors: Sizes, ending: str) -> bool:
    return any(name.endswith(ending) for name in tensors)


def _optional(config: Config, key: str) -> float | None:
    return None if config.get(key) is None else number(config[key], key)


def _architecture(config: Config) -> str:
    """Named apart where something of it is not known, so that no engine takes it for what it knows."""
    if "model_type" not in config:
        raise BadFact("does not say its `model_type`")
    kind = str(config["model_type"])
    architecture = _LLAMA_LIKE.get(kind, kind)
    unknown = _unknown(config, architecture) if architecture in ARCHITECTURES else None
    return f"{architecture} with {unknown}" if unknown else architecture


def _unknown(config: Config, architecture: str) -> str | None:
    rope, expected = _rope(config), ARCHITECTURES[architecture].activation
    if (kind := _rope_type(rope)) not in ("default", *SCALINGS):
        return f"{kind} RoPE"
    if (rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0) != 1.0:
        return "partial RoPE"
    activation = config.get("hidden_activation") or config.get("hidden_act") or expected
    return None if activation == expected or (architecture, activation) == _LEGACY_GELU else f"{activation} activation"


# ---- rotary position embedding


def _rope(config: Config) -> Config:
    rope: Config = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return rope


def _rope_type(rope: Config) -> str:
    return str(rope.get("rope_type", rope.get("type", "default")))


def _rope_scaling(config: Config, rope: Config) -> RopeScaling | None:
    kind = _rope_type(rope)
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling(kind, number(rope.get("factor"), "factor"))
    before = rope.get("original_max_position_embeddings") or config["max_position_embeddings"]
    context = count(config, "original_max_position_embeddings", before)
    return _llama3(rope, context) if kind == "llama3" else _yarn(rope, context, config["max_position_embeddings"])


def _llama3(rope: Config, context: int) -> RopeScaling:
    factor, slow, fast = (number(rope.get(key), key) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    if slow >= fast:
        raise BadFact("has a `low_freq_factor` that is not below its `high_freq_factor`")
    return RopeScaling("llama3", factor, context, slow, fast)


def _yarn(rope: Config, before: int, after: int) -> RopeScaling:
    factor = number(rope.get("factor") or after / before, "factor")
    return RopeScaling(
        "yarn",
        factor,
        before,
        slow=number(rope.get("beta_slow") or 1, "beta_slow"),
        fast=number(rope.get("beta_fast") or 32, "beta_fast"),
        attention_factor=number(rope.get("attention_factor") or _attention_factor(rope, factor), "attention_factor"),
        truncate=bool(rope.get("truncate", True)),
    )


def _attention_factor(rope: Config, factor: float) -> float:
    """As in the paper (Peng et al. 2023), or DeepSeek's ratio of two such numbers."""
    growth = 0.1 * math.log(max(factor, 1.0))
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        of, over = (number(rope[key], key) for key in ("mscale", "mscale_all_dim"))
        return (of * growth + 1) / (over * growth + 1)
    return growth + 1


# ---- sliding windows


def _window(config: Config) -> float:
    """In tokens, the row's own included; infinite where there is none."""
    kind = config.get("model_type")
    default = _MISTRALS_WINDOW if kind in ("mistral", "gemma2") else None
    asked_for = config.get("use_sliding_window", kind not in ("qwen2", "qwen3"))
    if not asked_for or config.get("sliding_window", default) is None:
        return math.inf
    return count(config, "sliding_window", default)


def _sliding_layers(config: Config, layers: int) -> tuple[int, ...]:
    kinds = config.get("layer_types") or _layer_types(config, layers)
    if len(kinds) != layers or not set(kinds) <= {"sliding_attention", "full_attention"}:
        raise BadFact(f"has `layer_types` that are no {layers} of sliding and full attention")
    return tuple(layer for layer, kind in enumerate(kinds) if kind == "sliding_attention")


def _layer_types(config: Config, layers: int) -> list[str]:
    """Where config.json does not list them: every second one of Gemma 2, the last ones of Qwen, all of others."""
    kind = config.get("model_type")
    first = count(config, "max_window_layers", 28) if kind in ("qwen2", "qwen3") else 0
    slides = [layer >= first and not (kind == "gemma2" and layer % 2) for layer in range(layers)]
    return ["sliding_attention" if one else "full_attention" for one in slides]
