"""4-bit matrices: what they keep exactly, how near they stay otherwise, and PyTorch's own reading of the format."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, dequantize, quantize

from ghostdraft.models.int4 import GROUP, PlainLinear, pack, quantise
from ghostdraft.models.transformer import Linear, Transformer
from tests.models.small_models import hugging_face, run, shape, tokens
from tests.models.test_graphs import graphed

ROWS, COLUMNS = 16, 256


def weights(seed: int = 0) -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed))


def test_ordinary_weights_stay_near() -> None:
    weight = weights()
    error = (quantise(weight).values() - weight).abs().view(ROWS, -1, GROUP).amax(-1)
    spread = weight.view(ROWS, -1, GROUP).amax(-1) - weight.view(ROWS, -1, GROUP).amin(-1)
    assert (error <= 0.6 * spread / 15).all()


@pytest.mark.parametrize("steps", [4, 7, 11, 15])
@pytest.mark.parametrize("scale", [2**-6, 0.40625])  # exact in bfloat16, as are the zeros
def test_values_on_a_grid_come_back_exactly(steps: int, scale: float) -> None:
    numbers = torch.randint(0, steps + 1, (ROWS, COLUMNS // GROUP, GROUP), generator=torch.Generator().manual_seed(1))
    numbers[..., 0], numbers[..., 1] = 0, steps
    weight = ((numbers - 5) * scale).flatten(1)
    assert torch.equal(quantise(weight).values(), weight)


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_1])
def test_blocks_of_gguf_lose_no_more_than_the_rounding_of_their_scales(kind: GGMLQuantizationType) -> None:
    weight = torch.from_numpy(dequantize(quantize(weights().numpy(), kind), kind))
    ends = weight.abs().view(ROWS, -1, GROUP).amax(-1, keepdim=True)
    error = (quantise(weight).values() - weight).abs().view(ROWS, -1, GROUP)
    assert (error <= ends * 2**-6).all()  # the scale's rounding, times 15 steps; a step is an eighth of the ends
    assert error.max() > 0


def test_a_group_of_one_value_comes_back() -> None:
    weight = torch.full((8, 128), 0.75)
    weight[1] = 0
    assert torch.equal(quantise(weight).values(), weight)


def test_pytorch_reads_the_format_alike() -> None:
    quantised = quantise(weights())
    x = torch.randn(5, COLUMNS, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(quantised.numbers.int(), 8)
    expected = torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, GROUP, quantised.scales_and_zeros)
    found = PlainLinear(quantised, None)(x)
    np.testing.assert_allclose(found.float(), expected.float(), atol=0.02 * float(expected.abs().max()))


def test_large_matrices_are_quantised_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = quantise(weights())
    monkeypatch.setattr("ghostdraft.models.int4.ROWS_AT_ONCE", 3)
    parts = quantise(weights())
    assert torch.equal(whole.numbers, parts.numbers)
    assert torch.equal(whole.scales_and_zeros, parts.scales_and_zeros)


def test_what_the_kernel_does_not_take_stays_as_it_is() -> None:
    for odd in (Linear(torch.zeros(7, 128), None), Linear(torch.zeros(8, 40), None)):
        assert pack(odd) is odd
    for columns in (32, 64, 576, 896):
        assert isinstance(pack(Linear(torch.zeros(8, columns), torch.zeros(8))), PlainLinear)


def test_a_model_of_4_bits_is_the_model_with_those_values() -> None:
    state = hugging_face(shape()).state_dict()
    values = {name: quantise(one).values() if "_proj.weight" in name else one for name, one in state.items()}
    expected = run(Transformer(shape(), values), tokens(50))
    np.testing.assert_allclose(run(graphed(packing=pack), tokens(50)), expected, atol=1e-4)
    assert np.abs(run(graphed(), tokens(50)) - expected).mean() > 1e-3


@pytest.mark.gpu
def test_the_kernel_agrees_with_the_plain_product() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    weight = weights().cuda()
    x = torch.randn(5, COLUMNS, device="cuda", dtype=torch.bfloat16)
    expected = PlainLinear(quantise(weight), None)(x)
    np.testing.assert_allclose(pack(Linear(weight, None))(x).float().cpu(), expected.float().cpu(), atol=0.3)
