"""The decoder-only transformer of `ARCHITECTURES` in PyTorch: for CUDA and MPS, for what the CPU engine does not cover,
and as that engine's reference.

Knows nothing of quantisation, drafts or text. Row invariance holds here to rounding only: PyTorch picks its kernels
by the number of rows.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial

import numpy as np

from ghostdraft.models.architectures import ARCHITECTURES, Architecture, Norm
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.rope import frequencies
from ghostdraft.models.rows import Mask, check_path, check_room, checked_parents, visible
from ghostdraft.models.types import (
    CacheState,
    EngineUnavailable,
    IntArray,
    Interrupted,
    OutOfMemory,
    Pass,
    Shape,
    WeightsCorrupt,
    WeightsTooLarge,
)

try:
    import torch
    from torch.nn import functional as F
except ImportError as error:
    raise EngineUnavailable("The PyTorch engine needs PyTorch: pip install 'ghostdraft[gpu]'.") from error

Tensor = torch.Tensor
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Function = Callable[[Tensor], Tensor]
ACTIVATIONS: Mapping[str, Function] = {"silu": F.silu, "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh")}
MAX_ROWS = 512

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Linear:
    weight: Tensor  # [out, in]
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


Packing = Callable[[Linear], Function]
"""How a matrix of the layers is held: from its weights to what multiplies by them."""


def as_it_is(linear: Linear) -> Function:
    return linear


@dataclass(frozen=True, slots=True)
class Layer:
    """One block's weights; queries, keys and values are one matrix, and so are gate and up."""

    attention_norm: Function
    qkv: Function
    query_norm: Function
    key_norm: Function
    attention_out: Function
    attention_post_norm: Function
    mlp_norm: Function
    up: Function
    down: Function
    mlp_post_norm: Function
    slides: bool  # whether it sees a window only


@dataclass(frozen=True, slots=True)
class Weights:
    embedding: Tensor  # [vocab, hidden]
    layers: tuple[Layer, ...]
    norm: Function
    head: Tensor  # [vocab, hidden]


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the R rows of one pass stand, and what of the first S slots of the cache they look at."""

    slots: Tensor  # int64 [R], their own in the cache
    cos: Tensor  # [R, 2, head_dim / 2], as `_rope_table` has it
    sin: Tensor
    mask: Tensor  # [R, S] to be added to scores: 0 where a row sees a slot, else -inf
    window_mask: Tensor  # the same in layers with a sliding window


class Transformer:
    """A LanguageModel over weights in PyTorch, with a KV cache that is allocated once."""

    def __init__(
        self,
        shape: Shape,
        tensors: Mapping[str, Tensor],
        device: str = "cpu",
        dtype: str = "float32",
        context: int = 4096,
        packing: Packing = as_it_is,
        spare: int = 0,
    ) -> None:
        """`tensors`: [out, in] under Hugging Face's names; `spare` slots of the cache lie behind the context.
        Raises EngineUnavailable, WeightsCorrupt, OutOfMemory."""
        _check(shape, device)
        self.shape = shape
        self._architecture = ARCHITECTURES[shape.architecture]
        self.context = min(context, shape.context)
        self.max_rows = min(MAX_ROWS, self.context)
        self.length = 0
        self._parents = np.empty(0, np.int32)  # of the last pass
        self._interrupted = False
        loader = _Loader(shape, tensors, torch.device(device), DTYPES[dtype], packing)
        with memory_told(WeightsTooLarge, "its weights"):
            self._weights = loader.weights()
        self._cos, self._sin = (table.to(self._weights.embedding) for table in _rope_table(shape, self.context))
        self._embedding_scale = torch.tensor(shape.hidden**0.5, dtype=DTYPES[dtype]).item()
        cache = (2, shape.layers, shape.kv_heads, self.context + spare, shape.head_dim)
        with memory_told(OutOfMemory, f"a context of {self.context:,} tokens"):
            self._keys, self._values = torch.zeros(cache, device=device, dtype=DTYPES[dtype])

    @torch.inference_mode()
    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        self._interrupted = False
        self._parents = self._parents[:0]
        checked = checked_parents(len(token_ids), parents)
        x = self._through_layers(self._on_device(token_ids), self._place(checked))
        self._parents = checked
        if not len(logit_rows):
            return self._without_logits()
        return Pass(self._logits(x[self._on_device(logit_rows)]).cpu().numpy())

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

    def save(self) -> CacheState:
        kept = torch.stack((self._keys[:, :, : self.length], self._values[:, :, : self.length]))
        return CacheState(self.length, kept.nbytes, kept)

    def restore(self, state: CacheState) -> None:
        self.length = state.length
        self._keys[:, :, : self.length], self._values[:, :, : self.length] = state.content
        self._parents = self._parents[:0]

    @property
    def weight_bytes(self) -> int:
        """What a pass reads of the weights."""
        return _size(self._weights.layers) + _size(self._weights.head)

    @property
    def cache_bytes(self) -> int:
        return _size((self._keys, self._values))

    def close(self) -> None:
        del self._weights, self._keys, self._values
        release()

    def _without_logits(self) -> Pass:
        """The pass is over then, as it is where logits are brought."""
        finish(self._cos.device)
        return Pass(np.empty((0, self.shape.vocab), np.float32))

    def _through_layers(self, token_ids: Tensor, rows: Rows) -> Tensor:
        """[R, hidden], before the final norm; keys and values of the rows are in the cache then."""
        x = self._embedded(token_ids)
        for index, layer in enumerate(self._weights.layers):
            if self._interrupted:
                raise Interrupted
            x = x + layer.attention_post_norm(self._attention(index, layer, layer.attention_norm(x), rows))
            x = x + layer.mlp_post_norm(self._mlp(layer, layer.mlp_norm(x)))
        return x

    def _logits(self, x: Tensor) -> Tensor:
        """float32 [R, vocab] of hidden states [R, hidden]."""
        return _capped(product(self._weights.norm(x), self._weights.head.t()), self.shape.logit_cap)

    def _gather(self, rows: Sequence[int]) -> None:
        if list(rows) == list(range(len(rows))):
            return
        kept = slice(self.length, self.length + len(rows))
        source = self._on_device(rows) + self.length
        for cache in (self._keys, self._values):
            cache[:, :, kept] = cache[:, :, source]

    def _place(self, parents: IntArray) -> Rows:
        count = len(parents)
        check_room(count, self.length, self.max_rows, self.context)
        seen = visible(parents, self.length)
        positions = seen.sum(1) - 1
        near = seen & self._in_window(positions)
        mask, window_mask = (self._added(torch.from_numpy(one).to(self._cos.device)) for one in (seen, near))
        at = self._on_device(positions)
        slots = torch.arange(self.length, self.length + count, device=self._cos.device)
        return Rows(slots, self._cos[at], self._sin[at], mask, window_mask)

    def _added(self, seen: Tensor) -> Tensor:
        """What to add to the scores so that only what is `seen` counts."""
        return torch.zeros_like(seen, dtype=self._cos.dtype).masked_fill(~seen, -torch.inf)

    def _in_window(self, positions: Positions) -> Mask:
        """[R, S + R] whether a row of the cache is near enough to each row of this pass."""
        window = self.shape.window or self.context
        return np.concatenate((np.arange(self.length), positions)) > positions[:, None] - window

    def _embedded(self, token_ids: Tensor) -> Tensor:
        x = F.embedding(token_ids, self._weights.embedding)
        return x * self._embedding_scale if self._architecture.scaled_embedding else x

    def _attention(self, index: int, layer: Layer, x: Tensor, rows: Rows) -> Tensor:
        shape, keys, values = self.shape, self._keys[index], self._values[index]  # [kv_heads, context, head_dim]
        heads = layer.qkv(x).view(len(x), -1, shape.head_dim).transpose(0, 1)
        q, k, v = heads.split((shape.heads, shape.kv_heads, shape.kv_heads))  # [heads, R, head_dim]
        if self._architecture.head_norms:
            heads = torch.cat((layer.query_norm(q), layer.key_norm(k)))
        q, k = _rotate(heads[: len(q) + len(k)], rows).split((len(q), len(k)))
        keys.index_copy_(1, rows.slots, k)
        values.index_copy_(1, rows.slots, v)
        mask = rows.window_mask if layer.slides else rows.mask
        seen = slice(0, mask.shape[1])
        y = self._attend(q, keys[:, seen], values[:, seen], mask)
        return layer.attention_out(y.transpose(0, 1).to(x.dtype, memory_format=torch.contiguous_format).flatten(1))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """[heads, R, head_dim]; PyTorch's own attention knows no cap."""
        scale, cap = (self.shape.query_scalar or self.shape.head_dim) ** -0.5, self.shape.attention_cap
        if cap is None:
            return F.scaled_dot_product_attention(q[None], k[None], v[None], mask, scale=scale, enable_gqa=True)[0]
        k, v = (one.repeat_interleave(len(q) // len(one), 0) for one in (k, v))
        scores = _capped(q @ k.transpose(1, 2) * scale, cap) + mask
        return scores.softmax(-1, dtype=torch.float32).to(v.dtype) @ v

    def _mlp(self, layer: Layer, x: Tensor) -> Tensor:
        activation = ACTIVATIONS[self._architecture.activation]
        if not self._architecture.gated:
            return layer.down(activation(layer.up(x)))
        gate, up = layer.up(x).chunk(2, dim=-1)
        return layer.down(activation(gate) * up)

    def _on_device(self, numbers: Sequence[int] | IntArray) -> Tensor:
        return torch.from_numpy(np.asarray(numbers, np.int64)).to(self._cos.device)


class TorchModel(Transformer):
    """The transformer with a checkpoint's weights, dequantised."""

    def __init__(
        self, checkpoint: Checkpoint, device: str = "cpu", dtype: str = "float32", context: int = 4096
    ) -> None:
        from ghostdraft.models.tensors import read_tensors  # wants packages that random weights do without

        shape = checkpoint.spec.shape
        super().__init__(shape, read_tensors(checkpoint.weights, shape), device, dtype, context)


def _size(held: object) -> int:
    """Bytes of the tensors in it."""
    if isinstance(held, Tensor):
        return held.numel() * held.element_size()
    if isinstance(held, tuple):
        return sum(map(_size, held))
    if is_dataclass(held):
        return sum(_size(getattr(held, field.name)) for field in fields(held))
    return 0


@contextmanager
def memory_told(kind: type[OutOfMemory], what: str) -> Iterator[None]:
    """PyTorch's word for a full memory becomes `kind`."""
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError is one, but not each device raises it
        if isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error):
            raise kind(f"The memory of the device does not suffice for {what}.") from error
        raise


def finish(device: torch.device) -> None:
    """Waits until it has done all that it was given."""
    torch.get_device_module(device).synchronize()


def release() -> None:
    """Gives memory that nothing uses any more back to the devices."""
    gc.collect()
    for device in (torch.cuda, torch.mps):
        if device.is_available():
            device.empty_cache()


def _rotate(x: Tensor, rows: Rows) -> Tensor:
    """Rotary position embedding (Su et al. 2021), number i of a head paired with i + head_dim / 2; [heads, R, dim]."""
    pairs = x.unflatten(-1, (2, -1))
    return torch.addcmul(pairs * rows.cos, pairs.flip(-2), rows.sin).flatten(-2)


def _rope_table(shape: Shape, context: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine [context, 2, head_dim / 2] of position * frequency, for both halves of a head; the first half's
    sine is less."""
    angles = torch.from_numpy(np.outer(np.arange(context), frequencies(shape)))
    factor = shape.rope_scaling.attention_factor if shape.rope_scaling else 1.0
    cos, sin = angles.cos() * factor, angles.sin() * factor
    return torch.stack((cos, cos), 1), torch.stack((-sin, sin), 1)


def _unchanged(x: Tensor) -> Tensor:
    return x


def product(a: Tensor, b: Tensor) -> Tensor:
    """[..., n, k] by [..., k, m], of two or three dimensions, to float32; on CUDA without a rounding before it."""
    if not a.is_cuda or a.dtype is torch.float32:
        return (a @ b).float()
    multiply = torch.mm if a.ndim == 2 else torch.bmm
    return multiply(a, b, out_dtype=torch.float32)


def _capped(x: Tensor, cap: float | None) -> Tensor:
    return x if cap is None else cap * torch.tanh(x / cap)


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def _rms_norm_in_float32(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x.float(), weight.shape, weight, eps).to(x.dtype)


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def _stacked(parts: Sequence[Linear]) -> Linear:
    """One matrix of several with the same input."""
    biases = [part.bias for part in parts if part.bias is not None]
    return Linear(torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None)


def _check(shape: Shape, device: str) -> None:
    if shape.architecture not in ARCHITECTURES:
        raise EngineUnavailable(f"The PyTorch engine runs {', '.join(ARCHITECTURES)}, not {shape.architecture}.")
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
    packing: Packing

    def weights(self) -> Weights:
        table = (self.shape.vocab, self.shape.hidden)
        embedding = self._take("model.embed_tokens.weight", table)
        return Weights(
            embedding=embedding,
            layers=tuple(self._layer(i, f"model.layers.{i}.") for i in range(self.shape.layers)),
            norm=self._norm("model.norm"),
            head=embedding if self.shape.tied else self._take("lm_head.weight", table),
        )

    def _layer(self, index: int, at: str) -> Layer:
        shape, wide = self.shape, self.shape.heads * self.shape.head_dim
        after_attention, before_mlp, after_mlp = self._inner_norms(at)
        down = "mlp.down_proj" if self._kind.gated else "mlp.c_proj"
        return Layer(
            attention_norm=self._norm(at + "input_layernorm"),
            qkv=self.packing(self._qkv(at + "self_attn.")),
            query_norm=self._head_norm(at + "self_attn.q_norm"),
            key_norm=self._head_norm(at + "self_attn.k_norm"),
            attention_out=self.packing(self._linear(at + "self_attn.o_proj", shape.hidden, wide, shape.out_bias)),
            attention_post_norm=after_attention,
            mlp_norm=before_mlp,
            up=self.packing(self._up(at + "mlp.")),
            down=self.packing(self._linear(at + down, shape.hidden, shape.mlp, shape.mlp_bias)),
            mlp_post_norm=after_mlp,
            slides=index in shape.sliding_layers,
        )

    def _inner_norms(self, at: str) -> tuple[Function, Function, Function]:
        """Behind attention, before the MLP and behind it."""
        if not self._kind.post_norms:
            return _unchanged, self._norm(at + "post_attention_layernorm"), _unchanged
        names = ("post_attention", "pre_feedforward", "post_feedforward")
        behind_attention, before_mlp, behind_mlp = (self._norm(f"{at}{name}_layernorm") for name in names)
        return behind_attention, before_mlp, behind_mlp

    def _norm(self, name: str) -> Function:
        size, eps = (self.shape.hidden,), self.shape.rms_eps
        if self._kind.norm is Norm.LAYER:
            weight, bias = (self._take(f"{name}.{kind}", size) for kind in ("weight", "bias"))
            return partial(_layer_norm, weight=weight, bias=bias, eps=eps)
        if self._kind.norm is Norm.RMS_FROM_ONE:
            return partial(_rms_norm_in_float32, weight=1 + self._take(name + ".weight", size, torch.float32), eps=eps)
        return partial(_rms_norm, weight=self._take(name + ".weight", size), eps=eps)

    def _head_norm(self, name: str) -> Function:
        if not self._kind.head_norms:
            return _unchanged
        weight = self._take(name + ".weight", (self.shape.head_dim,))
        return partial(_rms_norm, weight=weight, eps=self.shape.rms_eps)

    def _qkv(self, at: str) -> Linear:
        shape = self.shape
        counts = {"q": shape.heads, "k": shape.kv_heads, "v": shape.kv_heads}
        parts = [
            self._linear(f"{at}{name}_proj", count * shape.head_dim, shape.hidden, shape.qkv_bias)
            for name, count in counts.items()
        ]
        return _stacked(parts)

    def _up(self, at: str) -> Linear:
        names, shape = ("gate_proj", "up_proj") if self._kind.gated else ("c_fc",), self.shape
        return _stacked([self._linear(at + name, shape.mlp, shape.hidden, shape.mlp_bias) for name in names])

    def _linear(self, name: str, rows: int, columns: int, biased: bool) -> Linear:
        bias = self._take(name + ".bias", (rows,)) if biased else None
        return Linear(self._take(name + ".weight", (rows, columns)), bias)

    @property
    def _kind(self) -> Architecture:
        return ARCHITECTURES[self.shape.architecture]

    def _take(self, name: str, size: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
        try:
            tensor = self.tensors[name]
        except (KeyError, ValueError) as error:
            raise WeightsCorrupt(f"The tensor {name} is missing or cut short.") from error
        if tuple(tensor.shape) != size:
            raise WeightsCorrupt(f"The tensor {name} is {list(tensor.shape)}, but {list(size)} is expected.")
        return tensor.to(self.device, dtype or self.dtype)
