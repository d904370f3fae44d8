"""From what a checkpoint's files say of themselves, and the registry's table, to its `ModelSpec`.

Knows two kinds of files: GGUF metadata, and Hugging Face's config.json beside safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from ghostdraft.models import registry
from ghostdraft.models.architectures import ARCHITECTURES
from ghostdraft.models.config_shape import config_shape
from ghostdraft.models.fields import BadFact, count, number
from ghostdraft.models.gguf_header import GgufHeader
from ghostdraft.models.registry import Family, KnownModel
from ghostdraft.models.types import FimTemplate, ModelSpec, Shape, WeightsCorrupt

_REPO_TOKENS = ("<|repo_name|>", "<repo_name>", "<reponame>")
_FILE_TOKENS = ("<|file_sep|>", "<file_sep>", "<|file_separator|>")
_END_TOKENS = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|fim_pad|>",
    "<fim_pad>",
    "</s>",
    "<eos>",
    "<EOT>",
    "▁<EOT>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|EOT|>",
    "<｜end▁of▁sentence｜>",
)
_HUB_NAMES = (
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.0.mlp.c_fc.weight",
)
_GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3")  # whose tensors are known by the names there
_GGUF_NAMES = ("token_embd.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.ffn_gate.weight")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the files say beside the tensors: `names` by which the family may be recognised, ids of end tokens."""

    shape: Shape
    names: tuple[str, ...]
    licence: str | None
    bos_token: int | None
    end_tokens: tuple[int, ...]
    fim: tuple[FimTemplate, ...] = ()


def describe(
    name: str,
    facts: Facts,
    tokenizer: tokenizers.Tokenizer,
    licence: str | None = None,
    known: KnownModel | None = None,
) -> ModelSpec:
    """The spec of a checkpoint that is called `name` in the store; `known` is its line of the table, if it has one,
    `licence` what its publisher says outside the files."""
    control = {token.content: id_ for id_, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    family = known.family if known else registry.family_of(name, *facts.names)
    fim, fim_source = _fim(family, facts, control)
    repo_token, file_token = _context_tokens(family, control)
    fim_tokens = (token for template in fim for token in registry.control_tokens(template))
    ends = {repo_token, file_token, *fim_tokens, *_END_TOKENS}
    return ModelSpec(
        name=name,
        licence=known.licence if known else licence or facts.licence or "unknown: see its publisher",
        shape=facts.shape,
        fim=fim,
        fim_source=fim_source,
        stop_tokens=tuple(sorted({*facts.end_tokens, *(id_ for token, id_ in control.items() if token in ends)})),
        special_tokens=tuple(sorted(control.values())),
        repo_token=repo_token,
        file_token=file_token,
        bos_token=facts.bos_token,
        drafts=known.drafts if known else (),
    )


def _fim(family: Family | None, facts: Facts, control: Mapping[str, int]) -> tuple[tuple[FimTemplate, ...], str]:
    """The templates, and which of registry and tokenizer said so."""
    if family is not None:
        usable = tuple(one for one in family.fim if set(registry.control_tokens(one)) <= control.keys())
        return usable, "registry" if usable else "none"
    found = facts.fim or registry.fim_in_vocabulary(control)
    return found, "tokenizer" if found else "none"


def _context_tokens(family: Family | None, control: Mapping[str, int]) -> tuple[str | None, str | None]:
    """The tokens before a repository's name and before a file's name."""
    repo = (family.repo_token,) if family else _REPO_TOKENS
    file = (family.file_token,) if family else _FILE_TOKENS
    return _first_in(repo, control), _first_in(file, control)


def _first_in(tokens: Sequence[str | None], control: Mapping[str, int]) -> str | None:
    return next((token for token in tokens if token is not None and token in control), None)


def facts_from_gguf(header: GgufHeader, path: Path) -> Facts:
    """Raises WeightsCorrupt where a hyperparameter is missing, or none that a model can have."""
    with _nonsense_told(path):
        facts = _gguf_facts(header, path)
        _check_sizes(facts.shape, {name: entry.dims[::-1] for name, entry in header.tensors.items()}, _GGUF_NAMES)
        return facts


def _gguf_facts(header: GgufHeader, path: Path) -> Facts:
    metadata = header.metadata
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    adds_bos = metadata.get("tokenizer.ggml.add_bos_token", metadata.get("tokenizer.ggml.model") == "llama")
    ends = (metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom"))
    return Facts(
        shape=_gguf_shape(header),
        names=(str(metadata.get("general.name", "")), str(metadata.get("general.basename", "")), path.stem),
        licence=metadata.get("general.license"),
        bos_token=(_ids(bos) or (None,))[0] if adds_bos else None,
        end_tokens=tuple(id_ for end in ends for id_ in _ids(end)),
        fim=_gguf_fim(metadata),
    )


def _gguf_shape(header: GgufHeader) -> Shape:
    if "general.architecture" not in header.metadata or "token_embd.weight" not in header.tensors:
        raise BadFact("does not say its architecture, or has no tensor token_embd.weight")
    hidden, heads = _of_gguf(header, "embedding_length"), _of_gguf(header, "attention.head_count")
    epsilon = header.value("attention.layer_norm_rms_epsilon", header.value("attention.layer_norm_epsilon", 1e-5))
    return Shape(
        architecture=_gguf_architecture(header),
        layers=_of_gguf(header, "block_count"),
        hidden=hidden,
        heads=heads,
        kv_heads=_of_gguf(header, "attention.head_count_kv", heads),
        head_dim=_of_gguf(header, "attention.key_length", hidden // heads),
        mlp=_of_gguf(header, "feed_forward_length"),
        vocab=header.tensors["token_embd.weight"].dims[1],
        context=_of_gguf(header, "context_length"),
        rope_theta=_shortest(number(header.value("rope.freq_base", 10000.0), "rope.freq_base")),
        rms_eps=_shortest(number(epsilon, "layer_norm_rms_epsilon")),
        qkv_bias="blk.0.attn_q.bias" in header.tensors,
        tied="output.weight" not in header.tensors,
    )


def _of_gguf(header: GgufHeader, key: str, default: int | None = None) -> int:
    return count(header.metadata, f"{header.architecture}.{key}", default)


def _gguf_architecture(header: GgufHeader) -> str:
    """Named apart where it is not the plain shape, so that no engine takes it for that."""
    scaling = header.value("rope.scaling.type", "none")
    factor = header.value("rope.scaling.factor", header.value("rope.scale_linear", 1.0))
    if (scaling != "none" and factor != 1.0) or "rope_freqs.weight" in header.tensors:
        return f"{header.architecture} with scaled RoPE"
    if header.value("expert_count", 0):
        return f"{header.architecture} with experts"
    if header.architecture in ARCHITECTURES and header.architecture not in _GGUF_ARCHITECTURES:
        return f"{header.architecture} in a GGUF file"
    return header.architecture


def _shortest(value: float) -> float:
    """The file has float32: 1e-06 is kept as 9.99999997e-07, which is meant to be 1e-06."""
    return float(str(np.float32(value)))


def _gguf_fim(metadata: Mapping[str, Any]) -> tuple[FimTemplate, ...]:
    ids = [metadata.get(f"tokenizer.ggml.fim_{part}_token_id") for part in ("pre", "suf", "mid")]
    if None in ids:
        return ()
    prefix, suffix, middle = (metadata["tokenizer.ggml.tokens"][id_] for id_ in ids)
    return (registry.prefix_first(prefix, suffix, middle),)


def facts_from_config(folder: Path, tensors: Mapping[str, tuple[int, ...]], names: Sequence[str]) -> Facts:
    """From config.json and its neighbours; `tensors` are the names and shapes of all shards. Raises WeightsCorrupt."""
    config = _json(folder / "config.json")
    if config is None:
        raise WeightsCorrupt(f"{folder} has no config.json, so the shape of the model is not known.")
    generation = _json(folder / "generation_config.json") or {}
    with _nonsense_told(folder / "config.json"):
        shape = config_shape(config, tensors)
        _check_sizes(shape, tensors, _HUB_NAMES)
        return Facts(
            shape=shape,
            names=(*names, str(config.get("_name_or_path", ""))),
            licence=None,
            bos_token=_bos_token(folder, config),
            end_tokens=_ids(generation.get("eos_token_id")) + _ids(config.get("eos_token_id")),
        )


def _bos_token(folder: Path, config: Mapping[str, Any]) -> int | None:
    """The id, where the tokenizer is one that puts it before each text."""
    tokenizer = _json(folder / "tokenizer_config.json") or {}
    adds = tokenizer.get("add_bos_token", "Llama" in str(tokenizer.get("tokenizer_class", "")))
    return (_ids(config.get("bos_token_id")) or (None,))[0] if adds else None


@contextmanager
def _nonsense_told(path: Path) -> Iterator[None]:
    try:
        yield
    except BadFact as error:
        raise WeightsCorrupt(f"{path} {error}.") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise WeightsCorrupt(f"{path} describes no model that can be.") from error


def _check_sizes(shape: Shape, tensors: Mapping[str, tuple[int, ...]], names: Sequence[str]) -> None:
    """`names` of embedding, query, key and the MLP's; each [out, in]. Raises BadFact where the shape is not theirs."""
    if shape.architecture not in ARCHITECTURES:
        return
    rows = chain((shape.vocab, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim), repeat(shape.mlp))
    for name, high in zip(names, rows, strict=False):
        if name in tensors and tuple(tensors[name]) != (high, shape.hidden):
            raise BadFact(f"says that {name} is {high} x {shape.hidden}, which it is not")


def _ids(value: Any) -> tuple[int, ...]:
    """Of one token, several or none."""
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(id_, int) for id_ in ids):
        raise BadFact("names a token by something that is not its number")
    return tuple(ids)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        fields = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError as error:
        raise WeightsCorrupt(f"{path} is not JSON.") from error
    return fields if isinstance(fields, dict) else None
