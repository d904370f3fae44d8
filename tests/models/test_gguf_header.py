"""Headers of weight files: what they say, and what is told of damaged ones."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.gguf_header import read_header
from ghostdraft.models.safetensors_header import read_shapes
from ghostdraft.models.types import WeightsCorrupt
from tests.models.published import VOCAB, gguf_file, safetensors_folder, tensors

_PYTHONS_WORDS = re.compile(r"unpack|buffer|mmap|codec|Errno|'\w+'")


def test_header_says_what_the_gguf_package_says(tiny: Checkpoint) -> None:
    header, reference = read_header(tiny.weights[0]), gguf.GGUFReader(tiny.weights[0])
    assert {key: field.contents() for key, field in reference.fields.items() if "GGUF." not in key} == header.metadata
    assert list(header.tensors) == [tensor.name for tensor in reference.tensors]
    for tensor in reference.tensors:
        ours = header.tensors[tensor.name]
        assert (ours.dims, ours.kind) == (tuple(tensor.shape), tensor.tensor_type)
        assert header.data_start + ours.offset == tensor.data_offset


def test_values_of_every_kind(tmp_path: Path) -> None:
    header = read_header(gguf_file(tmp_path / "a.gguf", a__flag=True, a__number=-7, a__real=0.5, a__text="é"))
    assert [header.metadata[f"a.{key}"] for key in ("flag", "number", "real", "text")] == [True, -7, 0.5, "é"]
    assert header.metadata["tokenizer.ggml.tokens"] == list(VOCAB)
    assert header.architecture == "llama"
    assert header.value("context_length") == 512
    assert header.value("no such key", 3) == 3


@given(kept=st.floats(0, 1, exclude_max=True))
@settings(deadline=None, max_examples=60)
def test_a_file_cut_anywhere_is_told(tmp_path_factory: pytest.TempPathFactory, kept: float) -> None:
    path = gguf_file(tmp_path_factory.mktemp("cut") / "a.gguf")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(WeightsCorrupt) as caught:
        read_header(path)
    assert not _PYTHONS_WORDS.search(str(caught.value).replace(str(path), ""))


@given(place=st.integers(0, 400), value=st.integers(0, 255))
@settings(deadline=None)
def test_a_changed_header_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, place: int, value: int) -> None:
    path = gguf_file(tmp_path_factory.mktemp("changed") / "a.gguf")
    content = bytearray(path.read_bytes())
    content[place] = value
    path.write_bytes(content)
    with contextlib.suppress(WeightsCorrupt):
        read_header(path)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04 a zip", b"GGUF" + bytes([9, 0, 0, 0]) + bytes(64)])
def test_what_is_no_gguf_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsCorrupt) as caught:
        read_header(path)
    assert not _PYTHONS_WORDS.search(str(caught.value).replace(str(path), ""))


def test_shapes_of_safetensors(tmp_path: Path) -> None:
    shapes = read_shapes(safetensors_folder(tmp_path) / "model.safetensors")
    assert shapes["model.embed_tokens.weight"] == tensors()["token_embd.weight"].shape
    assert len(shapes) == len(tensors())


@pytest.mark.parametrize("change", [-1, 1, -5000])
def test_safetensors_of_another_length_are_told(tmp_path: Path, change: int) -> None:
    path = safetensors_folder(tmp_path) / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(WeightsCorrupt, match="safetensors"):
        read_shapes(path)


@pytest.mark.parametrize("content", [b"", bytes(8), b"\xff" * 20, (2).to_bytes(8, "little") + b"[]"])
def test_what_is_no_safetensors_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightsCorrupt, match="safetensors"):
        read_shapes(path)
