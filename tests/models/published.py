"""Published models, small enough to make on the fly: GGUF files, folders with safetensors, wheels that carry a file."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from ghostdraft.models.registry import SMOLLM2, KnownModel, Packages, Published

HIDDEN, HEADS, MLP = 64, 2, 96
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = ["d e", "de f", "Ġ Ġ", "ĠĠ ĠĠ", "r e", "Ġ re"]
CONTROL = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<repo_name>", "<file_sep>")
VOCAB = (*LETTERS, *(merge.replace(" ", "") for merge in MERGES), *CONTROL)


def tensors(layer: str = "blk.0.", seed: int = 0) -> dict[str, np.ndarray]:
    """One Llama layer under GGUF's names, [out, in]."""
    shapes = {
        "token_embd": (len(VOCAB), HIDDEN),
        "output_norm": (HIDDEN,),
        **{f"{layer}attn_{part}": (HIDDEN, HIDDEN) for part in ("q", "k", "v", "output")},
        **{f"{layer}ffn_{part}": (MLP, HIDDEN) for part in ("gate", "up")},
        f"{layer}ffn_down": (HIDDEN, MLP),
        f"{layer}attn_norm": (HIDDEN,),
        f"{layer}ffn_norm": (HIDDEN,),
    }
    random = np.random.default_rng(seed)
    return {f"{name}.weight": random.normal(0, 0.1, size).astype(np.float32) for name, size in shapes.items()}


def gguf_file(path: Path, name: str = "Plain Model", architecture: str = "llama", **more: Any) -> Path:
    """`more` is metadata: text, numbers and truths, under their keys with "." as "__"."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(name)
    writer.add_block_count(1)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    _add_tokenizer(writer)
    for key, value in more.items():
        writer.add_key_value(key.replace("__", "."), value, gguf.GGUFValueType.get_type(value))
    for tensor_name, values in tensors().items():
        writer.add_tensor(tensor_name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(list(VOCAB))
    writer.add_token_types([3 if token in CONTROL else 1 for token in VOCAB])
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(VOCAB.index("<|endoftext|>"))
    writer.add_bos_token_id(VOCAB.index("<|endoftext|>"))
    writer.add_add_bos_token(False)


_HF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "blk.0.attn_norm": "model.layers.0.input_layernorm",
    "blk.0.ffn_norm": "model.layers.0.post_attention_layernorm",
    "blk.0.attn_output": "model.layers.0.self_attn.o_proj",
    **{f"blk.0.attn_{part}": f"model.layers.0.self_attn.{part}_proj" for part in "qkv"},
    **{f"blk.0.ffn_{part}": f"model.layers.0.mlp.{part}_proj" for part in ("gate", "up", "down")},
}


def safetensors_folder(folder: Path, **changes: Any) -> Path:
    """`changes` to config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {f"{_HF_NAMES[name.removesuffix('.weight')]}.weight": values for name, values in tensors().items()}
    save_file(named, folder / "model.safetensors")
    config = {
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "intermediate_size": MLP,
        "vocab_size": len(VOCAB),
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "eos_token_id": VOCAB.index("<|endoftext|>"),
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps({**config, **changes}), "utf-8")
    byte_level().save(str(folder / "tokenizer.json"))
    return folder


def byte_level() -> tokenizers.Tokenizer:
    """As publishers write it: normalised, and with FIM tokens that are not marked special."""
    vocab = {token: id_ for id_, token in enumerate(VOCAB) if token not in CONTROL}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab, [tuple(merge.split(" ")) for merge in MERGES]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in CONTROL])
    return tokenizer


def wheel(folder: Path, project: str, version: str, members: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{project.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def in_wheels(folder: Path, content: bytes, parts: int = 2, name: str = "pocket") -> KnownModel:
    """Wheels in `folder` that carry `content` cut into parts, and the line of the table that knows them."""
    cut = -(-len(content) // parts)
    projects = tuple(f"{name}-part{number}" for number in range(1, parts + 1))
    for number, project in enumerate(projects):
        part = content[number * cut : (number + 1) * cut]
        wheel(folder, project, "1.0", {f"{project}/data/part{number:02}.bin": part, f"{project}/__init__.py": b""})
    return known(name, content, Packages(projects, "1.0", "*/data/part*.bin"))


def known(name: str, content: bytes, *sources: Any) -> KnownModel:
    published = Published(f"{name}.gguf", len(content), hashlib.sha256(content).hexdigest())
    return KnownModel(name, SMOLLM2, "llama", "Apache-2.0", 512, 0.001, sources, published)


def spoil(content: bytes, at: Sequence[int]) -> bytes:
    changed = bytearray(content)
    for place in at:
        changed[place] ^= 0xFF
    return bytes(changed)
