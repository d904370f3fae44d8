"""A checkpoint's tensors as float32 PyTorch tensors under Hugging Face's names, read one at a time.

Knows file formats and their names for things; knows nothing of what the tensors are for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from gguf import GGMLQuantizationType, dequantize
from gguf.quants import quant_shape_to_byte_shape
from safetensors import SafetensorError, safe_open

from ghostdraft.models.gguf_header import TensorEntry, read_header
from ghostdraft.models.types import Shape, WeightsCorrupt

Bytes = npt.NDArray[np.uint8]
Read = Callable[[], torch.Tensor]


class LazyTensors(Mapping[str, torch.Tensor]):
    """Reads a tensor when it is asked for and keeps none, so that only one at a time is in memory twice."""

    def __init__(self, reads: Mapping[str, Read]) -> None:
        self._reads = reads

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._reads[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads)

    def __len__(self) -> int:
        return len(self._reads)


def read_tensors(weights: Sequence[Path], shape: Shape) -> Mapping[str, torch.Tensor]:
    """The tensors of one .gguf, or of all .safetensors files together. Raises WeightsCorrupt."""
    if weights[0].suffix == ".gguf":
        return _gguf(weights[0], shape)
    return _safetensors(weights)


def _safetensors(weights: Sequence[Path]) -> Mapping[str, torch.Tensor]:
    reads: dict[str, Read] = {}
    for path in weights:
        try:
            file = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise _corrupt(path, error) from error
        reads.update({name: partial(_float32, file, name) for name in file.keys()})  # noqa: SIM118 (not a mapping)
    return LazyTensors(reads)


def _float32(file: safe_open, name: str) -> torch.Tensor:
    tensor: torch.Tensor = file.get_tensor(name)
    return tensor.to(torch.float32)


def _gguf(path: Path, shape: Shape) -> Mapping[str, torch.Tensor]:
    header = read_header(path)
    data = np.memmap(path, np.uint8, "r", offset=header.data_start)
    named = ((_hf_name(entry.name), entry) for entry in header.tensors.values())
    return LazyTensors({name: partial(_dequantised, data, entry, name, shape) for name, entry in named if name})


def _dequantised(data: Bytes, entry: TensorEntry, name: str, shape: Shape) -> torch.Tensor:
    kind = GGMLQuantizationType(entry.kind)
    size = quant_shape_to_byte_shape(entry.dims[::-1], kind)
    blocks = data[entry.offset : entry.offset + math.prod(size)].reshape(size)
    values = torch.from_numpy(dequantize(blocks, kind).copy())
    if shape.architecture != "llama":
        return values
    if ".q_proj." in name:
        return _halves_apart(values, shape.heads)
    if ".k_proj." in name:
        return _halves_apart(values, shape.kv_heads)
    return values


def _halves_apart(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Undoes GGUF's order of q and k rows for Llama, which lets the two numbers that RoPE rotates stand side by side;
    here number i of a head is rotated with number i + head_dim / 2."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


_TOP_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GGUF_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")


def _hf_name(gguf_name: str) -> str | None:
    """Hugging Face's name for a GGUF tensor; None for one that this transformer does not use."""
    match = _GGUF_NAME.fullmatch(gguf_name)
    if match is None:
        return None
    layer, part, kind = match.groups()
    name = (_TOP_NAMES if layer is None else _LAYER_NAMES).get(part)
    if name is None:
        return None
    return f"{name}.{kind}" if layer is None else f"model.layers.{layer}.{name}.{kind}"


def _corrupt(path: Path, error: Exception) -> WeightsCorrupt:
    return WeightsCorrupt(f"{path.name} cannot be read as weights ({error}).")
