"""Random checkpoints of transformers' own classes, as files, with the logits that transformers has for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from ghostdraft.models import specs
from ghostdraft.models.checkpoint import Checkpoint, SourceFile
from ghostdraft.models.safetensors_header import read_shapes
from ghostdraft.models.types import FloatArray, ModelSpec, Shape
from tests.models.small_models import CONTEXT, VOCAB, randomised, tokens

LENGTH = 100  # of prompts, in tokens
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": None,
    "initializer_range": 0.15,
}


@dataclass(frozen=True, slots=True)
class Published:
    """A random checkpoint's files, and the logits [LENGTH, vocab] of `tokens(LENGTH)` by transformers."""

    checkpoint: Checkpoint
    expected: FloatArray

    @property
    def shape(self) -> Shape:
        return self.checkpoint.spec.shape


def publish(kind: str, changes: dict[str, Any], folder: Path) -> Published:
    """`kind`: a `model_type`; `changes` to SIZES."""
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **changes})
    torch.manual_seed(0)
    model = randomised(transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
    model.save_pretrained(folder)
    with torch.inference_mode():
        expected = model(torch.tensor([tokens(LENGTH)])).logits[0].numpy()
    shape = specs.facts_from_config(folder, read_shapes(folder / "model.safetensors"), ()).shape
    file = SourceFile("model.safetensors", 0, "")
    return Published(Checkpoint(folder, ModelSpec(kind, "none", shape), (file,), "random"), expected)
