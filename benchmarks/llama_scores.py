"""Scores of llama.cpp, as a process of its own: llama-cpp-python may be compiled in another environment.

Run as `PYTHON -m benchmarks.llama_scores WEIGHTS.gguf FOLDER` with the folder above on PYTHONPATH, since that
environment need not have ghostdraft. Reads FOLDER/windows.npy; prints the path of each window's scores when written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import llama_cpp
import numpy as np

from .scores import score


def main(weights: str, folder: str) -> None:
    windows = np.load(Path(folder) / "windows.npy", allow_pickle=False)
    model = _load(weights, windows.shape[1])
    for index, window in enumerate(windows):
        model.reset()
        model.eval(window[:-1].tolist())
        path = Path(folder) / f"{index}.npz"
        score(model.scores[: len(window) - 1], window[1:]).save(path)
        print(path, flush=True)  # noqa: T201 (read by the parent)


def _load(weights: str, context: int) -> llama_cpp.Llama:
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return llama_cpp.Llama(
        weights,
        n_ctx=context,
        n_batch=context,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=True,
        verbose=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
