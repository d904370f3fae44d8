"""Models with random weights in the shapes of published ones, made on the device: nothing is downloaded."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from ghostdraft.models.graphs import WIDTHS, GraphModel, Graphs
from ghostdraft.models.int4 import pack
from ghostdraft.models.transformer import as_it_is
from ghostdraft.models.types import Shape

_QWEN = Shape("qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 1e6, 1e-6, qkv_bias=True, tied=False)
_TINY = replace(_QWEN, layers=2, hidden=128, heads=4, kv_heads=2, head_dim=32, mlp=256, vocab=640, context=256)


@dataclass(frozen=True, slots=True)
class Sizes:
    """A target and its draft. `words`: tokens that both know, what is behind them pads a vocabulary. `context` in
    tokens; `texts` of `written` tokens are compared."""

    target: Shape
    draft: Shape
    words: int
    context: int
    texts: int
    written: int


LARGE = Sizes(
    target=_QWEN,
    draft=replace(_QWEN, layers=24, hidden=896, heads=14, kv_heads=2, head_dim=64, mlp=4864, vocab=151936, tied=True),
    words=151665,
    context=4096,
    texts=6,
    written=96,
)
SMALL = Sizes(_TINY, replace(_TINY, layers=1, vocab=512, tied=True), words=500, context=256, texts=1, written=16)


class RandomTensors(Mapping[str, torch.Tensor]):
    """By Hugging Face's names, each made when it is asked for, and always the same. Rows of the head for what pads
    the vocabulary are 0, so that those tokens are never the best."""

    def __init__(self, shape: Shape, words: int, device: str) -> None:
        self._shape = shape
        self._words = words
        self._device = device

    def __getitem__(self, name: str) -> torch.Tensor:
        size = self._size(name)
        if name.endswith("norm.weight"):
            return torch.ones(size, device=self._device)
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()))
        values = torch.randn(size, generator=generator, device=self._device, dtype=torch.bfloat16)
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            values[self._words :] = 0
        return values * (1 / math.sqrt(size[-1]))

    def __iter__(self) -> Iterator[str]:
        raise TypeError("tensors are made by name")

    def __len__(self) -> int:
        raise TypeError("tensors are made by name")

    def _size(self, name: str) -> tuple[int, ...]:
        shape = self._shape
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        part, kind = name.split(".")[-2:]
        rows, columns = {
            "embed_tokens": (shape.vocab, shape.hidden),
            "lm_head": (shape.vocab, shape.hidden),
            "q_proj": (queries, shape.hidden),
            "k_proj": (keys, shape.hidden),
            "v_proj": (keys, shape.hidden),
            "o_proj": (shape.hidden, queries),
            "gate_proj": (shape.mlp, shape.hidden),
            "up_proj": (shape.mlp, shape.hidden),
            "down_proj": (shape.hidden, shape.mlp),
        }.get(part, (shape.hidden, 0))
        return (rows, columns) if kind == "weight" and columns else (rows,)


def build(
    shape: Shape,
    sizes: Sizes,
    device: str,
    precision: str,
    graphs: Graphs,
    widths: tuple[int, ...] = WIDTHS,
) -> GraphModel:
    """`precision`: "bfloat16" or "int4"."""
    tensors = RandomTensors(shape, sizes.words, device)
    packing = pack if precision == "int4" else as_it_is
    return GraphModel(shape, tensors, device, "bfloat16", sizes.context, packing, graphs, widths)
