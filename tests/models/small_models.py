"""Small random models in the shapes of Llama and Qwen2, and ways to run any LanguageModel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, get_tensor_name_map, quantize
from hypothesis import strategies as st
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from ghostdraft.models.checkpoint import Checkpoint, SourceFile
from ghostdraft.models.transformer import Transformer
from ghostdraft.models.types import FloatArray, LanguageModel, ModelSpec, Shape

torch.set_num_threads(1)  # such small models lose by more

VOCAB = 97
CONTEXT = 256
CLASSES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}


def shape(
    architecture: str = "qwen2", heads: int = 6, kv_heads: int = 2, head_dim: int = 32, tied: bool = True
) -> Shape:
    return Shape(
        architecture=architecture,
        layers=3,
        hidden=96,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        mlp=160,
        vocab=VOCAB,
        context=CONTEXT,
        rope_theta=50_000.0,
        rms_eps=1e-5,
        qkv_bias=architecture == "qwen2",
        tied=tied,
    )


def hugging_face(of: Shape) -> PreTrainedModel:
    """transformers' own model, with random weights, biases and norms."""
    config, model = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}[
        of.architecture
    ]
    torch.manual_seed(of.kv_heads)
    made = model(
        config(
            vocab_size=of.vocab,
            hidden_size=of.hidden,
            intermediate_size=of.mlp,
            num_hidden_layers=of.layers,
            num_attention_heads=of.heads,
            num_key_value_heads=of.kv_heads,
            head_dim=of.head_dim,
            max_position_embeddings=of.context,
            rope_parameters={"rope_type": "default", "rope_theta": of.rope_theta},
            rms_norm_eps=of.rms_eps,
            tie_word_embeddings=of.tied,
            initializer_range=0.15,
        )
    )
    return randomised(made)


def randomised(model: PreTrainedModel) -> PreTrainedModel:
    """With random biases and norms, which are all alike in a new model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def ours(of: Shape, **options: object) -> Transformer:
    return Transformer(of, hugging_face(of).state_dict(), **options)


def stored(of: Shape, folder: Path) -> Checkpoint:
    """The random model as safetensors, without a tokenizer."""
    state = hugging_face(of).state_dict()
    tensors = {name: tensor for name, tensor in state.items() if name != "lm_head.weight" or not of.tied}
    save_file(tensors, folder / "model.safetensors")
    return Checkpoint(folder, ModelSpec("small", "none", of), (SourceFile("model.safetensors", 0, ""),), "random")


def tokens(count: int, seed: int = 0, vocab: int = VOCAB) -> list[int]:
    numbers: list[int] = np.random.default_rng(seed).integers(0, vocab, count).tolist()
    return numbers


def run(model: LanguageModel, token_ids: Sequence[int], chunk: int = 64) -> FloatArray:
    """From an empty cache, kept: the logits [n, vocab]."""
    model.truncate(0)
    return extend(model, token_ids, chunk)


def extend(model: LanguageModel, token_ids: Sequence[int], chunk: int = 64) -> FloatArray:
    """Behind what is kept, kept too: the logits [n, vocab]."""
    parts = []
    for at in range(0, len(token_ids), chunk):
        rows = range(len(token_ids[at : at + chunk]))
        parts.append(model.forward(token_ids[at : at + chunk], rows).logits.copy())
        model.keep(rows)
    return np.concatenate(parts)


def paths(parents: Sequence[int]) -> list[list[int]]:
    """For each row, the rows from the root to it."""
    found: list[list[int]] = []
    for row, parent in enumerate(parents):
        found.append([*(found[parent] if parent >= 0 else []), row])
    return found


trees = st.integers(1, 12).flatmap(lambda n: st.tuples(*(st.integers(-1, row - 1) for row in range(n))))


GGUF_SHAPE = Shape("llama", 2, 256, 4, 2, 64, 512, VOCAB, CONTEXT, 50_000.0, 1e-5, qkv_bias=False, tied=True)
_K_BLOCKS = {  # bytes of a block, and where its float16 scales stand
    "Q4_K": (144, {0: 5e-4, 2: 4e-3}),
    "Q5_K": (176, {0: 2.5e-4, 2: 4e-3}),
    "Q6_K": (210, {208: 7.5e-5}),
}


def stored_gguf(kind: str, folder: Path, extreme: bool = False) -> Checkpoint:
    """A random model of GGUF_SHAPE, all matrices in blocks of this kind.

    An `extreme` one has the smallest quant everywhere, and rows of activations that are all alike, so all 127.
    """
    writer = GGUFWriter(folder / "model.gguf", GGUF_SHAPE.architecture)
    random = np.random.default_rng(0)
    for name, tensor in hugging_face(GGUF_SHAPE).state_dict().items():
        if name == "lm_head.weight":
            continue
        if tensor.ndim == 1:
            writer.add_tensor(_gguf_name(name), np.ones_like(tensor) if extreme else tensor.numpy())
        else:
            weights = np.full_like(tensor, 0.01) if extreme else tensor.numpy()
            blocks = _smallest_q6(weights) if extreme and kind == "Q6_K" else _blocks(kind, weights, random)
            writer.add_tensor(_gguf_name(name), blocks, raw_dtype=GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Checkpoint(folder, ModelSpec("small", "none", GGUF_SHAPE), (SourceFile("model.gguf", 0, ""),), "random")


def _smallest_q6(weights: FloatArray) -> npt.NDArray[np.uint8]:
    """Quants of 0, which stand for -32, and scales of 1."""
    blocks = np.zeros((weights.shape[0], weights.shape[1] // 256, 210), np.uint8)
    blocks[:, :, 192:208] = 1
    blocks[:, :, 208:] = np.array([0.0003], np.float16).view(np.uint8)
    return blocks.reshape(weights.shape[0], -1)


def _blocks(kind: str, weights: FloatArray, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    """[rows, bytes]. The gguf package cannot write K blocks: those are random bytes, with scales that fit."""
    if kind not in _K_BLOCKS:
        return quantize(weights, GGMLQuantizationType[kind])
    size, scales = _K_BLOCKS[kind]
    blocks = random.integers(0, 256, (weights.shape[0], weights.shape[1] // 256, size), np.uint8)
    for at, scale in scales.items():
        blocks[:, :, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    return blocks.reshape(weights.shape[0], -1)


def _gguf_name(name: str) -> str:
    architecture = MODEL_ARCH[GGUF_SHAPE.architecture.upper()]
    found = get_tensor_name_map(architecture, GGUF_SHAPE.layers).get_name(name, try_suffixes=(".weight", ".bias"))
    if found is None:
        raise KeyError(name)
    return found
