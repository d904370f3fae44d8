"""The architectures that run here, and what sets each apart from Llama; sizes and numbers stand in `Shape`.

Knows nothing of files, and needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Norm(StrEnum):
    RMS = "rms"
    RMS_FROM_ONE = "rms from one"  # the weights are stored less 1
    LAYER = "layer"  # with a bias


@dataclass(frozen=True, slots=True)
class Architecture:
    """The defaults are Llama's."""

    norm: Norm = Norm.RMS
    activation: str = "silu"  # as config.json names it
    gated: bool = True  # whether the MLP has a gate
    head_norms: bool = False  # queries and keys are normalised, each head by itself
    post_norms: bool = False  # what attention and MLP give is normalised before it is added
    scaled_embedding: bool = False  # by the square root of the hidden size


_TANH = "gelu_pytorch_tanh"

ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(),
    "qwen2": Architecture(),
    "qwen3": Architecture(head_norms=True),
    "starcoder2": Architecture(norm=Norm.LAYER, activation=_TANH, gated=False),
    "gemma": Architecture(norm=Norm.RMS_FROM_ONE, activation=_TANH, scaled_embedding=True),
    "gemma2": Architecture(norm=Norm.RMS_FROM_ONE, activation=_TANH, scaled_embedding=True, post_norms=True),
}
