"""Drives Hugging Face transformers for a comparison, by JSON lines (`json_lines`): its `generate` behind a warm prompt.

Modes: "plain"; "prompt lookup", drafts of LOOKUP tokens from the prompt; "assisted", drafts of a smaller model. The
weights are those that transformers' own reader takes from the GGUF file, in float32 or bfloat16: whichever is faster.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig
from transformers.utils import logging

from ghostdraft.benchmarks.json_lines import serve

LOOKUP = 8  # tokens
TRIES = 5  # of one pass, with each type of number


class Writer:
    """One model, and another that may assist it; both with a copy of the prompt's cache for each text."""

    def __init__(self, model: Any, assistant: Any = None) -> None:
        self._model, self._assistant = model, assistant
        self._read_again = _PromptTime(assistant) if assistant else None

    @torch.inference_mode()
    def read(self, prompt: Sequence[int]) -> None:
        self._prompt = torch.tensor([prompt])
        self._cache = DynamicCache(config=self._model.config)
        self._model(self._prompt[:, :-1], past_key_values=self._cache, logits_to_keep=1)

    @torch.inference_mode()
    def write(self, mode: str, tokens: int) -> float:
        """Seconds for so many tokens; what the assistant takes for the prompt is left out."""
        modes: dict[str, dict[str, Any]] = {
            "plain": {},
            "prompt lookup": {"prompt_lookup_num_tokens": LOOKUP},
            "assisted": {"assistant_model": self._assistant},
        }
        cache = copy.deepcopy(self._cache)
        if self._read_again:
            self._read_again.seconds = 0.0
        start = time.perf_counter()
        found = self._model.generate(self._prompt, past_key_values=cache, max_new_tokens=tokens, **modes[mode])
        seconds = time.perf_counter() - start
        self.written = found[0, self._prompt.shape[1] :].tolist()
        if len(self.written) != tokens:
            raise RuntimeError(f"transformers wrote {len(self.written)} tokens where {tokens} were asked for.")
        return seconds - (self._read_again.seconds if self._read_again else 0.0)


class _PromptTime:
    """What a model's passes over more than LONG tokens took, in seconds."""

    LONG = 64

    def __init__(self, model: Any) -> None:
        self.seconds = self._since = 0.0
        model.register_forward_pre_hook(self._begin, with_kwargs=True)
        model.register_forward_hook(self._end, with_kwargs=True)

    def _begin(self, _model: Any, _args: Any, _kwargs: Any) -> None:
        self._since = time.perf_counter()

    def _end(self, _model: Any, args: Any, kwargs: Any, _result: Any) -> None:
        token_ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        if token_ids.shape[1] > self.LONG:
            self.seconds += time.perf_counter() - self._since


class Worker:
    """Answers requests; its public methods are the operations."""

    def load(self, path: str, threads: int, assistant: str | None) -> str:
        """The type of number that a pass over one token is faster with."""
        logging.set_verbosity_error()
        torch.set_num_threads(threads)
        model = faster(_load(path))
        self._writer = Writer(model, _load(assistant).to(model.dtype) if assistant else None)
        return str(model.dtype).removeprefix("torch.")

    def export(self, path: str, folder: str) -> None:
        """The model as safetensors in bfloat16, with its configuration."""
        logging.set_verbosity_error()
        save(_load(path), Path(folder))

    def read(self, prompt: Sequence[int]) -> None:
        self._writer.read(prompt)

    def write(self, mode: str, tokens: int) -> float:
        return self._writer.write(mode, tokens)


def faster(model: Any) -> Any:
    """The model, or itself in bfloat16."""
    half = copy.deepcopy(model).to(torch.bfloat16)
    return min((model, half), key=_seconds)


@torch.inference_mode()
def _seconds(model: Any) -> float:
    times = []
    for _ in range(TRIES):
        start = time.perf_counter()
        model(torch.zeros((1, 1), dtype=torch.long))
        times.append(time.perf_counter() - start)
    return min(times)


def _load(path: str) -> Any:
    file = Path(path)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, local_files_only=True, trust_remote_code=False, gguf_file=file.name
    ).eval()
    return greedy(model)


def save(model: Any, folder: Path) -> None:
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tensors = model.to(torch.bfloat16).state_dict()
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def greedy(model: Any) -> Any:
    """It never stops by itself."""
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0)
    return model


def main() -> None:
    worker = Worker()
    serve({"load": worker.load, "export": worker.export, "read": worker.read, "write": worker.write})


if __name__ == "__main__":
    main()
