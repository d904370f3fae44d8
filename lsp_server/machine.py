"""What this machine is, as far as it decides how fast a model runs. Nothing here imports torch."""

from __future__ import annotations

import importlib.util
import os
import platform
import time
from dataclasses import dataclass

from ghostdraft.models.cost_file import processor
from ghostdraft.models.load import has_accelerator

GPU_NOTE = 'A GPU is here, but PyTorch is not, so the CPU is used. To use the GPU: pip install "ghostdraft[gpu]"'

_PROBE = 64 << 20  # bytes read to measure the memory
_THREADS = 4  # take all of the memory's bandwidth
_SLOWEST = 0.1  # seconds a token; a line of ten tokens then takes a second


@dataclass(frozen=True, slots=True)
class Machine:
    """`memory` in bytes; `bandwidth` in bytes a second that one thread reads."""

    system: str
    python: str
    processor: str
    cores: int
    memory: int
    bandwidth: float
    gpu: bool
    torch: bool

    @property
    def whole_bandwidth(self) -> float:
        """Bytes a second that the cores read together."""
        return self.bandwidth * min(self.cores, _THREADS)


def look() -> Machine:
    """Takes some 50 ms: the memory's speed is measured."""
    import psutil

    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        processor=processor(),
        cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
        memory=psutil.virtual_memory().total,
        bandwidth=_bandwidth(),
        gpu=has_accelerator(),
        torch=has_torch(),
    )


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def gpu_note() -> str:
    """The one line for machines whose GPU lies idle; empty elsewhere."""
    return GPU_NOTE if has_accelerator() and not has_torch() else ""


def is_too_slow(machine: Machine, weights: float, portable: bool) -> bool:
    """Whether a model with so many bytes of weights will not keep up with typing; an estimate.

    A token reads all of them once. `portable`: the engine has no vector instructions here.
    """
    return portable or weights / machine.whole_bandwidth > _SLOWEST or 1.5 * weights > machine.memory


def _bandwidth() -> float:
    import numpy as np

    data = np.ones(_PROBE // 8, np.int64)
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        data.sum()
        spent.append(time.perf_counter() - start)
    return _PROBE / min(spent)
