"""Drives llama.cpp's library for a comparison, by JSON lines (`json_lines`), through llama-cpp-python's bindings.

Every time is the wall time of `llama_decode` until the logits can be read, in milliseconds.

Requests: {"op": "load", "name", "path", "context", "threads", "flash"}, {"op": "requantize", "path", "out", "threads"},
{"op": "prefill", "name", "tokens"}, {"op": "step", "name", "tokens", "repeat"}, {"op": "system"}.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Sequence
from typing import Any

from ghostdraft.benchmarks.json_lines import serve
from ghostdraft.benchmarks.llama_library import fill, open_model

Q8_0_FILE_TYPE = 7  # LLAMA_FTYPE_MOSTLY_Q8_0


class Peer:
    """One model and its context, with one sequence; `length` tokens are in its KV cache."""

    def __init__(self, llama: Any, path: str, context: int, threads: int, flash: bool) -> None:
        self.llama = llama
        _, self.context = open_model(llama, path, context, threads, flash)
        self.batch = llama.llama_batch_init(context, 0, 1)
        self.length = 0

    def prefill(self, tokens: Sequence[int]) -> float:
        """A cold prompt, logits of its last token only."""
        self._truncate(0)
        elapsed = self._decode(tokens, all_logits=False)
        self.length = len(tokens)
        return elapsed

    def step(self, tokens: Sequence[int], repeat: int) -> list[float]:
        """The same rows behind the cache, logits of each, `repeat` times; the cache stays as it is."""
        times = []
        for _ in range(repeat):
            times.append(self._decode(tokens, all_logits=True))
            self._truncate(self.length)
        return times

    def _decode(self, tokens: Sequence[int], all_logits: bool) -> float:
        last = len(tokens) - 1
        fill(self.batch, tokens, self.length, range(0 if all_logits else last, len(tokens)))
        start = time.perf_counter()
        failed = self.llama.llama_decode(self.context, self.batch)
        self.llama.llama_get_logits_ith(self.context, last)
        elapsed = (time.perf_counter() - start) * 1e3
        if failed:
            raise RuntimeError(f"llama_decode failed with {failed}.")
        return elapsed

    def _truncate(self, length: int) -> None:
        self.llama.llama_memory_seq_rm(self.llama.llama_get_memory(self.context), 0, length, -1)
        self.length = length


class Worker:
    """Answers requests; its public methods are the operations."""

    def __init__(self) -> None:
        self._llama: Any = importlib.import_module("llama_cpp.llama_cpp")
        self._llama.llama_backend_init()
        self._peers: dict[str, Peer] = {}

    def load(self, name: str, path: str, context: int, threads: int, flash: bool) -> None:
        self._peers[name] = Peer(self._llama, path, context, threads, flash)

    def requantize(self, path: str, out: str, threads: int) -> None:
        settings = self._llama.llama_model_quantize_default_params()
        settings.ftype, settings.allow_requantize, settings.nthread = Q8_0_FILE_TYPE, True, threads
        if self._llama.llama_model_quantize(path.encode(), out.encode(), ctypes.byref(settings)):
            raise RuntimeError(f"llama.cpp cannot requantize {path}.")

    def prefill(self, name: str, tokens: Sequence[int]) -> float:
        return self._peers[name].prefill(tokens)

    def step(self, name: str, tokens: Sequence[int], repeat: int) -> list[float]:
        return self._peers[name].step(tokens, repeat)

    def system(self) -> str:
        """What it was compiled for."""
        about: str = self._llama.llama_print_system_info().decode().strip(" |")
        return about


def main() -> None:
    worker = Worker()
    serve(
        {
            "load": worker.load,
            "requantize": worker.requantize,
            "prefill": worker.prefill,
            "step": worker.step,
            "system": worker.system,
        }
    )


if __name__ == "__main__":
    main()
