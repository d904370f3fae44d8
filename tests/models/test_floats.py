"""A checkpoint's tensors as floats are what its file says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from ghostdraft.models.cpu.blocks import GGUF_FORMATS
from ghostdraft.models.cpu.floats import TargetFloats
from ghostdraft.models.types import EngineUnavailable
from tests.models.small_models import hugging_face, shape, stored, stored_gguf


@pytest.mark.parametrize("kind", GGUF_FORMATS)
def test_a_gguf_files_blocks_are_read_exactly(kind: str, tmp_path: Path) -> None:
    checkpoint = stored_gguf(kind, tmp_path)
    tensors = {one.name: one for one in gguf.GGUFReader(checkpoint.weights[0]).tensors}
    said = tensors["token_embd.weight"]
    expected = gguf.dequantize(said.data, said.tensor_type)
    found = TargetFloats(checkpoint)
    np.testing.assert_allclose(found.embedding(), expected, rtol=1e-3, atol=1e-5)
    rows = np.array([3, 50, 96], np.int32)
    assert (found.head(rows) == found.embedding()[rows]).all()  # it is tied
    assert (found.norm() == tensors["output_norm.weight"].data).all()


def test_safetensors_are_read_as_the_engine_has_them(tmp_path: Path) -> None:
    of = shape("qwen2", tied=False)
    state, found = hugging_face(of).state_dict(), TargetFloats(stored(of, tmp_path))
    for said, name in ((found.embedding(), "model.embed_tokens"), (found.head(np.arange(97)), "lm_head")):
        expected = state[f"{name}.weight"].numpy()
        np.testing.assert_allclose(said, expected, atol=np.abs(expected).max() / 200)
    assert (found.norm() == state["model.norm.weight"].numpy()).all()


def test_a_model_that_the_engine_does_not_run_is_refused(tmp_path: Path) -> None:
    checkpoint = stored(shape("qwen2"), tmp_path)
    other = replace(checkpoint, spec=replace(checkpoint.spec, shape=replace(checkpoint.spec.shape, window=8)))
    with pytest.raises(EngineUnavailable, match=r"no trained drafts: .* Use another model"):
        TargetFloats(other)
