"""What every use of llama.cpp's library begins with: a model is opened with one context, a batch is filled with rows of
one sequence. `llama` is the module with the bindings.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from ghostdraft.models.types import IntArray


def open_model(llama: Any, path: str, context: int, threads: int, flash: bool) -> tuple[Any, Any]:
    """The model and its context. Raises RuntimeError where llama.cpp gives none."""
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    if not model:
        raise RuntimeError(f"llama.cpp cannot load {path}.")
    settings = llama.llama_context_default_params()
    settings.n_ctx, settings.n_threads, settings.n_threads_batch = context, threads, threads
    settings.flash_attn_type = int(flash)
    opened = llama.llama_init_from_model(model, settings)
    if not opened:
        llama.llama_model_free(model)
        raise RuntimeError(f"llama.cpp cannot make a context of {context} tokens for {path}.")
    return model, opened


def fill(batch: Any, token_ids: Sequence[int] | IntArray, start: int, logit_rows: Container[int]) -> None:
    """With tokens from the position `start` on; logits of `logit_rows`."""
    batch.n_tokens = len(token_ids)
    for i, token in enumerate(token_ids):
        batch.token[i], batch.pos[i] = int(token), start + i
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        batch.logits[i] = i in logit_rows
