"""The decoder-only transformer of Llama and Qwen2 in PyTorch: for CUDA and MPS, and as the CPU engine's reference.

Knows nothing of quantisation, drafts or text. Row invariance holds here to rounding only: PyTorch picks its kernels
by the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.rows import ancestry, check_path, checked_parents
from ghostdraft.models.types import EngineUnavailable, IntArray, Interrupted, Pass, Shape, WeightsCorrupt

try:
    import torch
    from torch.nn import functional as F

    from ghostdraft.models.tensors import read_tensors
except ImportError as error:
    raise EngineUnavailable("The PyTorch engine needs PyTorch: pip install 'ghostdraft[gpu]'.") from error

Tensor = torch.Tensor
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MAX_ROWS = 512


@dataclass(frozen=True, slots=True)
class Layer:
    """One block's weights, [out, in]; queries, keys and values are one matrix, and so are gate and up."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    attention_out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    embedding: Tensor  # [vocab, hidden]
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Tensor  # [vocab, hidden]


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of one pass stand: R rows behind S kept ones."""

    slots: slice  # in the cache, S to S + R
    cos: Tensor  # [R, head_dim / 2]
    sin: Tensor
    mask: Tensor  # bool [R, S + R]: what each row sees


class Transformer:
    """A LanguageModel over weights in PyTorch, with a KV cache that is allocated once."""

    def __init__(
        self,
        shape: Shape,
        tensors: Mapping[str, Tensor],
        device: str = "cpu",
        dtype: str = "float32",
        context: int = 4096,
    ) -> None:
        """`tensors`: [out, in] under Hugging Face's names. Raises EngineUnavailable, WeightsCorrupt."""
        _check(shape, device)
        self.shape = shape
        self.context = min(context, shape.context)
        self.max_rows = min(MAX_ROWS, self.context)
        self.length = 0
        self._parents = np.empty(0, np.int32)  # of the last pass
        self._interrupted = False
        loader = _Loader(shape, tensors, torch.device(device), DTYPES[dtype])
        self._weights = loader.weights()
        self._cos, self._sin = (table.to(self._weights.norm) for table in _rope_table(shape, self.context))
        cache = (2, shape.layers, shape.kv_heads, self.context, shape.head_dim)
        self._keys, self._values = torch.zeros(cache, device=device, dtype=DTYPES[dtype])

    @torch.inference_mode()
    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        self._interrupted = False
        self._parents = self._parents[:0]
        checked = checked_parents(len(token_ids), parents)
        rows = self._place(checked)
        x = F.embedding(self._on_device(token_ids), self._weights.embedding)  # [R, hidden]
        for index, layer in enumerate(self._weights.layers):
            if self._interrupted:
                raise Interrupted
            x = x + self._attention(index, layer, self._norm(x, layer.attention_norm), rows)
            x = x + self._mlp(layer, self._norm(x, layer.mlp_norm))
        self._parents = checked
        x = self._norm(x[self._on_device(logit_rows)], self._weights.norm)
        return Pass(F.linear(x, self._weights.head).float().cpu().numpy())

    def interrupt(self) -> None:
        self._interrupted = True

    def keep(self, rows: Sequence[int]) -> None:
        check_path(rows, self._parents)
        self._gather(rows)
        self.length += len(rows)
        self._parents = self._parents[:0]

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        self.length = length
        self._parents = self._parents[:0]

    def _gather(self, rows: Sequence[int]) -> None:
        if list(rows) == list(range(len(rows))):
            return
        kept = slice(self.length, self.length + len(rows))
        source = self._on_device(rows) + self.length
        for cache in (self._keys, self._values):
            cache[:, :, kept] = cache[:, :, source]

    def _place(self, parents: IntArray) -> Rows:
        count = len(parents)
        if not 0 < count <= self.max_rows:
            raise ValueError(f"{count} rows in one pass, where 1 to {self.max_rows} fit")
        if self.length + count > self.context:
            raise ValueError(f"{count} rows behind {self.length} tokens exceed the context of {self.context}")
        sees = ancestry(parents)
        positions = self._on_device(self.length + sees.sum(1) - 1)
        mask = torch.from_numpy(np.pad(sees, ((0, 0), (self.length, 0)), constant_values=True)).to(self._cos.device)
        return Rows(slice(self.length, self.length + count), self._cos[positions], self._sin[positions], mask)

    def _attention(self, index: int, layer: Layer, x: Tensor, rows: Rows) -> Tensor:
        shape, keys, values = self.shape, self._keys[index], self._values[index]  # [kv_heads, context, head_dim]
        heads = F.linear(x, layer.qkv, layer.qkv_bias).view(len(x), -1, shape.head_dim).transpose(0, 1)
        q, k, v = heads.split((shape.heads, shape.kv_heads, shape.kv_heads))  # [heads, R, head_dim]
        keys[:, rows.slots], values[:, rows.slots] = _rotate(k, rows), v
        seen = slice(0, rows.slots.stop)
        y = F.scaled_dot_product_attention(
            _rotate(q, rows)[None], keys[None, :, seen], values[None, :, seen], rows.mask, enable_gqa=True
        )
        return F.linear(y[0].transpose(0, 1).reshape(len(x), -1), layer.attention_out)

    def _mlp(self, layer: Layer, x: Tensor) -> Tensor:
        gate, up = F.linear(x, layer.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, layer.down)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.shape.rms_eps)

    def _on_device(self, numbers: Sequence[int] | IntArray) -> Tensor:
        return torch.from_numpy(np.asarray(numbers, np.int64)).to(self._cos.device)


class TorchModel(Transformer):
    """The transformer with a checkpoint's weights, dequantised."""

    def __init__(
        self, checkpoint: Checkpoint, device: str = "cpu", dtype: str = "float32", context: int = 4096
    ) -> None:
        shape = checkpoint.spec.shape
        super().__init__(shape, read_tensors(checkpoint.weights, shape), device, dtype, context)


def _rotate(x: Tensor, rows: Rows) -> Tensor:
    """Rotary position embedding (Su et al. 2021), number i of a head paired with i + head_dim / 2; [heads, R, dim]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * rows.cos - b * rows.sin, b * rows.cos + a * rows.sin), dim=-1)


def _rope_table(shape: Shape, context: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine [context, head_dim / 2] of position * theta^(-2 i / head_dim)."""
    frequencies = 1.0 / shape.rope_theta ** (torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
    angles = torch.outer(torch.arange(context).float(), frequencies)
    return angles.cos(), angles.sin()


def _check(shape: Shape, device: str) -> None:
    if shape.architecture not in ("llama", "qwen2"):
        raise EngineUnavailable(f"The PyTorch engine runs Llama and Qwen2 shapes, not {shape.architecture}.")
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind = device.partition(":")[0]
    if not available.get(kind, False):
        raise EngineUnavailable(f"PyTorch finds no device {device!r} here: use the CPU, or install its driver.")


@dataclass(frozen=True, slots=True)
class _Loader:
    """Checks tensors against the shape and brings them onto the device, one at a time."""

    shape: Shape
    tensors: Mapping[str, Tensor]
    device: torch.device
    dtype: torch.dtype

    def weights(self) -> Weights:
        table = (self.shape.vocab, self.shape.hidden)
        embedding = self._take("model.embed_tokens.weight", table)
        return Weights(
            embedding=embedding,
            layers=tuple(self._layer(f"model.layers.{i}.") for i in range(self.shape.layers)),
            norm=self._take("model.norm.weight", (self.shape.hidden,)),
            head=embedding if self.shape.tied else self._take("lm_head.weight", table),
        )

    def _layer(self, at: str) -> Layer:
        hidden, mlp, wide = self.shape.hidden, self.shape.mlp, self.shape.heads * self.shape.head_dim
        return Layer(
            attention_norm=self._take(at + "input_layernorm.weight", (hidden,)),
            qkv=self._qkv(at, "weight", hidden),
            qkv_bias=self._qkv(at, "bias") if self.shape.qkv_bias else None,
            attention_out=self._take(at + "self_attn.o_proj.weight", (hidden, wide)),
            mlp_norm=self._take(at + "post_attention_layernorm.weight", (hidden,)),
            gate_up=torch.cat([self._take(f"{at}mlp.{name}_proj.weight", (mlp, hidden)) for name in ("gate", "up")]),
            down=self._take(at + "mlp.down_proj.weight", (hidden, mlp)),
        )

    def _qkv(self, at: str, kind: str, *inner: int) -> Tensor:
        heads = {"q": self.shape.heads, "k": self.shape.kv_heads, "v": self.shape.kv_heads}
        parts = [
            self._take(f"{at}self_attn.{name}_proj.{kind}", (count * self.shape.head_dim, *inner))
            for name, count in heads.items()
        ]
        return torch.cat(parts)

    def _take(self, name: str, size: tuple[int, ...]) -> Tensor:
        try:
            tensor = self.tensors[name]
        except (KeyError, ValueError) as error:
            raise WeightsCorrupt(f"The tensor {name} is missing or cut short.") from error
        if tuple(tensor.shape) != size:
            raise WeightsCorrupt(f"The tensor {name} is {list(tensor.shape)}, but {list(size)} is expected.")
        return tensor.to(self.device, self.dtype)
