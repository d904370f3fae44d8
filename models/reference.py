"""Hugging Face transformers' own model with a checkpoint's weights in float32: what every engine is held against.

Loads by transformers' own reader, so that nothing of ours stands between the file and its logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import AutoModelForCausalLM

from ghostdraft.models.types import FloatArray, IntArray

if TYPE_CHECKING:
    from ghostdraft.models.checkpoint import Checkpoint


class HuggingFaceModel:
    def __init__(self, checkpoint: Checkpoint) -> None:
        file = checkpoint.weights[0]
        gguf = {"gguf_file": file.name} if file.suffix == ".gguf" else {}
        self._model = AutoModelForCausalLM.from_pretrained(
            file.parent, dtype=torch.float32, local_files_only=True, trust_remote_code=False, **gguf
        ).eval()

    @torch.inference_mode()
    def logits(self, token_ids: IntArray) -> FloatArray:
        """[n] tokens, from an empty cache, to [n, vocab]."""
        ids = torch.from_numpy(token_ids.astype("int64"))[None]
        logits: FloatArray = self._model(ids, use_cache=False).logits[0].numpy()
        return logits
