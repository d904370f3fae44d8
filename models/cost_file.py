"""Where measured costs are kept: `costs.json` in the model's folder, by what they depend on.

Measured anew is what is not there: for other weights, another device, engine or processor, or after the file was
deleted. A file that cannot be read counts as empty.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.costs import Costs

NAME = "costs.json"


class CostFile:
    """The costs under one `key` in the file at `path`."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key

    def read(self) -> Costs | None:
        """None where nothing was measured yet."""
        try:
            return Costs.of(self._all()[self.key])
        except (KeyError, TypeError, ValueError):
            return None

    def write(self, costs: Costs) -> None:
        """Raises OSError."""
        unfinished = self.path.with_suffix(f".{os.getpid()}.part")
        unfinished.write_text(json.dumps({**self._all(), self.key: asdict(costs)}, indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, self.path)

    def _all(self) -> dict[str, Any]:
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def cost_file(checkpoint: Checkpoint, device: str, threads: int | None = None, precision: str = "") -> CostFile:
    """That of a model as `load` brings it up: `threads` are those of "cpu", `precision` that of the weights on a GPU.
    Raises EngineUnavailable where "cpu" has no engine that runs."""
    engine = _cpu_engine(threads) if device == "cpu" else _torch_engine(device, precision)
    parts = (f"weights {_weights(checkpoint)}", device, engine, processor())
    return CostFile(checkpoint.folder / NAME, "; ".join(parts))


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def gpu_name(device: str) -> str:
    """`device`: "cuda" or "mps"."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "Apple GPU"


def _weights(checkpoint: Checkpoint) -> str:
    sums = "".join(file.sha256 or f"{file.name} {file.size}" for file in checkpoint.files)
    return hashlib.sha256(sums.encode()).hexdigest()[:16]


def _torch_engine(device: str, precision: str) -> str:
    from importlib.metadata import version

    engine = f"torch {version('torch')}"
    return engine if device == "cpu-torch" else f"{engine}; {precision} on {gpu_name(device)}"


def _cpu_engine(threads: int | None) -> str:
    from ghostdraft.models.cpu.library import fingerprint
    from ghostdraft.models.cpu.model import chosen_variant, default_threads

    return f"{chosen_variant()} of engine {fingerprint()}; {threads or default_threads()} threads"
