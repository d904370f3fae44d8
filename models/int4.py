"""Matrices of 4-bit numbers in groups of 32 along the input, weight-only: a number q of 0 to 15 stands for
(q - 8) * scale + zero, with bfloat16 scale and zero for each group, as PyTorch's own kernel on CUDA has it.

Values that lie on a grid of at most 16 steps, as those of GGUF's 4-bit blocks do, are kept on it: what changes of them
is the rounding of scale and zero. Knows nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ghostdraft.models.transformer import Function, Linear, Tensor, as_it_is

GROUP = 32  # inputs
STEPS = range(15, 3, -1)  # of a group's grid; the fullest that fits best is taken
INNER_TILES = (8, 4, 2)  # of 16 inputs, as the kernel's layout may have them; many are quicker
ROWS_AT_ONCE = 512  # quantised: bounds the memory that it takes


@dataclass(frozen=True, slots=True)
class Quantised:
    """A matrix [out, in]."""

    numbers: Tensor  # uint8 [out, in], 0 to 15
    scales_and_zeros: Tensor  # bfloat16 [in / GROUP, out, 2]

    def values(self) -> Tensor:
        """float32 [out, in]."""
        scale, zero = self.scales_and_zeros.float().permute(2, 1, 0).unsqueeze(-1)  # [out, in / GROUP, 1]
        groups = self.numbers.view(*scale.shape[:2], GROUP)
        values: Tensor = (groups - 8.0) * scale + zero
        return values.flatten(1)


@dataclass(frozen=True, slots=True)
class KernelLinear:
    """On CUDA, by PyTorch's kernel; activations are bfloat16."""

    packed: Tensor
    scales_and_zeros: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int4pack_mm(x.contiguous(), self.packed, GROUP, self.scales_and_zeros)
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True, slots=True)
class PlainLinear:
    """Anywhere: the same numbers, made values again each time."""

    weight: Quantised
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weight.values().to(x.dtype), self.bias)


def pack(linear: Linear) -> Function:
    """A `Packing`. Matrices of sizes that the kernel does not take stay as they are."""
    rows, columns = linear.weight.shape
    tiles = next((tiles for tiles in INNER_TILES if columns % (16 * tiles) == 0), None)
    if rows % 8 or tiles is None:
        return as_it_is(linear)
    quantised = quantise(linear.weight)
    return _for_kernel(quantised, linear.bias, tiles) if linear.weight.is_cuda else PlainLinear(quantised, linear.bias)


def quantise(weight: Tensor) -> Quantised:
    """[out, in], where GROUP divides `in`."""
    parts = [_quantise_rows(rows.float()) for rows in weight.split(ROWS_AT_ONCE)]
    return Quantised(
        torch.cat([part.numbers for part in parts]), torch.cat([part.scales_and_zeros for part in parts], dim=1)
    )


def _quantise_rows(weight: Tensor) -> Quantised:
    groups = weight.unflatten(1, (-1, GROUP))  # [out, in / GROUP, GROUP]
    numbers, scale, zero = _on_grid(groups, STEPS[0])
    least = _error(groups, numbers, scale, zero)
    for steps in STEPS[1:]:
        candidate = _on_grid(groups, steps)
        error = _error(groups, *candidate)
        better = error < least
        least = torch.where(better, error, least)
        numbers, scale, zero = (
            torch.where(better, new, old) for new, old in zip(candidate, (numbers, scale, zero), strict=True)
        )
    both = torch.cat((scale, zero), dim=-1).to(torch.bfloat16).transpose(0, 1).contiguous()
    return Quantised(numbers.to(torch.uint8).flatten(1), both)


def _on_grid(groups: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers, scale and zero of each group with so many steps from its least value to its greatest."""
    least, greatest = groups.aminmax(dim=-1, keepdim=True)
    scale = _rounded((greatest - least) / steps)
    zero = _rounded(least + 8 * scale)
    numbers = ((groups - zero) / scale.where(scale > 0, torch.ones_like(scale)) + 8).round().clamp(0, 15)
    return numbers, scale, zero


def _error(groups: Tensor, numbers: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return ((numbers - 8) * scale + zero - groups).square().sum(-1, keepdim=True)


def _rounded(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).float()


def _for_kernel(weight: Quantised, bias: Tensor | None, tiles: int) -> KernelLinear:
    """The kernel wants two numbers a byte, that of the even column in the high bits."""
    pairs = weight.numbers[:, ::2] << 4 | weight.numbers[:, 1::2]
    packed = torch.ops.aten._convert_weight_to_int4pack(pairs, tiles)
    return KernelLinear(packed, weight.scales_and_zeros, bias)
