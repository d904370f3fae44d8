"""Reads the header of a .safetensors file: the names and shapes of its tensors, not their values.

Format: the README of the safetensors project.
"""

from __future__ import annotations

import json
from pathlib import Path

from ghostdraft.models.types import WeightsCorrupt


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Tensor names to shapes. Raises WeightsCorrupt where the file is none, or does not end with its last tensor."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length) if length <= path.stat().st_size else b"")
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = 8 + length + max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise WeightsCorrupt(f"{path} is not a readable safetensors file.") from error
    if end != path.stat().st_size:
        raise WeightsCorrupt(f"{path} has {path.stat().st_size:,} bytes instead of {end:,}.")
    return {name: tuple(entry["shape"]) for name, entry in tensors.items()}
