"""From a trained network to a draft's file, and back. Knows the names of tensors; nothing of data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ghostdraft.drafting.train.network import (
    EPS,
    HEAD_DIM,
    THETA,
    Block,
    DraftNetwork,
    EagleNetwork,
    MedusaHeads,
    Sizes,
)
from ghostdraft.models.draft_file import DraftHeader, DraftKind, write_draft
from ghostdraft.models.types import FloatArray, IntArray, Shape

Tensors = Iterator[tuple[str, tuple[torch.Tensor, ...]]]
"""By its name a tensor of the file, in parts that stand side by side in it: views of the network's own."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a draft is for; `shape` is the target's."""

    name: str
    shape: Shape


def save(path: Path, network: nn.Module, target: Target, vocabulary: IntArray, card: Mapping[str, Any]) -> None:
    """`network`: one of `network`'s. `vocabulary` [draft vocab], ascending."""
    kind, sizes, heads, tensors = _parts(network)
    shape = _shape(sizes, target.shape)
    header = DraftHeader(kind, target.name, target.shape.hidden, shape, heads, vocabulary, card)
    write_draft(path, header, {name: _array(torch.cat(parts, dim=-1)) for name, parts in tensors})


def restore(network: nn.Module, tensors: Mapping[str, FloatArray]) -> None:
    """What `save` wrote of a network of these sizes."""
    for name, parts in _parts(network)[3]:
        columns = torch.from_numpy(tensors[name]).split([part.shape[-1] for part in parts], dim=-1)
        for part, values in zip(parts, columns, strict=True):
            part.detach().copy_(values)


def _parts(network: nn.Module) -> tuple[DraftKind, Sizes, int, Tensors]:
    match network:
        case DraftNetwork():
            return DraftKind.DRAFT_MODEL, network.sizes, 0, _draft_model(network)
        case EagleNetwork():
            return DraftKind.EAGLE, network.draft.sizes, 0, _eagle(network)
        case MedusaHeads():
            return DraftKind.MEDUSA, Sizes(network.inner.in_features, layers=0), network.heads, _medusa(network)
    raise TypeError(f"a {type(network).__name__} is no draft")


def _draft_model(network: DraftNetwork) -> Tensors:
    yield "fusion.weight", (network.projection.weight,)
    yield from _behind_fusion(network)


def _eagle(network: EagleNetwork) -> Tensors:
    yield "fusion.weight", (network.draft.projection.weight, network.state.weight, network.own.weight)
    yield from _behind_fusion(network.draft)


def _behind_fusion(network: DraftNetwork) -> Tensors:
    for index, block in enumerate(network.trunk.blocks):
        assert isinstance(block, Block)
        yield from _block(index, block)
    yield "output_norm.weight", (network.final_norm.weight,)
    yield "output.weight", (network.head.weight,)


def _medusa(network: MedusaHeads) -> Tensors:
    yield "inner.weight", (network.inner.weight,)
    yield "inner.bias", (network.inner.bias,)
    yield "output_norm.weight", (network.final_norm.weight,)


def _block(index: int, block: Block) -> Tensors:
    sizes, name = block.sizes, f"blk.{index}"
    widths = [count * HEAD_DIM for count in (sizes.heads, sizes.kv_heads, sizes.kv_heads)]
    yield f"{name}.attn_norm.weight", (block.attention_norm.weight,)
    for part, tensor in zip("qkv", block.qkv.weight.split(widths), strict=True):
        yield f"{name}.attn_{part}.weight", (tensor,)
    yield f"{name}.attn_output.weight", (block.o.weight,)
    yield f"{name}.ffn_norm.weight", (block.mlp_norm.weight,)
    for part, tensor in zip(("gate", "up"), block.gate_up.weight.chunk(2), strict=True):
        yield f"{name}.ffn_{part}.weight", (tensor,)
    yield f"{name}.ffn_down.weight", (block.down.weight,)


def _shape(sizes: Sizes, target: Shape) -> Shape:
    return Shape(
        "qwen2", sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads, HEAD_DIM, sizes.mlp,
        vocab=target.vocab, context=target.context, rope_theta=THETA, rms_eps=EPS, qkv_bias=False, tied=False,
    )  # fmt: skip


def _array(tensor: torch.Tensor) -> FloatArray:
    array: FloatArray = tensor.detach().float().contiguous().numpy()
    return array
