"""How fast this machine reads a model's weights: the floor of a pass, which has to read each of them once.

Knows nothing of engines: the mapped file is searched for its largest number by as many threads, which costs least.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ghostdraft.models.cpu.convert import read_plan

Bytes = npt.NDArray[np.uint8]

LINE = 64  # bytes


class Weights:
    """What a token reads of a file of the CPU engine: all of it, but the table of embeddings where the head has its own
    weights."""

    def __init__(self, path: Path, threads: int) -> None:
        shape, tensors, start = read_plan(path)
        whole: Bytes = np.memmap(path, np.uint8, "r")
        read = whole[start + (0 if shape.tied else tensors["embedding.weight"].size) :]
        self._parts = np.array_split(read[: len(read) // LINE * LINE].view(np.int32), threads)
        self._threads = ThreadPoolExecutor(threads)
        self.bytes = len(read)

    def seconds(self) -> float:
        """Of reading them once."""
        started = time.perf_counter()
        list(self._threads.map(np.maximum.reduce, self._parts))
        return time.perf_counter() - started
