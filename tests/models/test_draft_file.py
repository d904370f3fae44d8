"""Drafts in files: what was written is read again, and what was not says so with the mend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.models import draft_file
from ghostdraft.models.draft_file import MEND, DraftHeader, DraftKind, read_draft, write_draft
from ghostdraft.models.gguf_header import read_header
from ghostdraft.models.types import RopeScaling, WeightsCorrupt
from tests.models.small_models import shape

SCALED = replace(shape(), rope_scaling=RopeScaling("yarn", 4.0, 32_768), sliding_layers=(1, 2), window=64)
HEADER = DraftHeader(
    DraftKind.EAGLE, "small", 96, shape(), 0, np.array([1, 5, 96], np.int32), {"steps": 3, "data": ["ünï", None]}
)
TENSORS = {
    "output_norm.weight": np.linspace(0, 1, 96, dtype=np.float32),
    "fusion.weight": np.random.default_rng(0).normal(size=(64, 192)).astype(np.float32),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_draft(tmp_path / "eagle.gguf", HEADER, TENSORS)
    return tmp_path / "eagle.gguf"


def assert_same(found: DraftHeader, expected: DraftHeader) -> None:
    assert (found.vocabulary == expected.vocabulary).all()
    nothing = np.empty(0, np.int32)
    assert replace(found, vocabulary=nothing) == replace(expected, vocabulary=nothing)


@pytest.mark.parametrize("kind", DraftKind)
@pytest.mark.parametrize("of", [shape(), shape("llama", tied=False), SCALED])
def test_what_was_written_is_read_again(kind: DraftKind, of: Any, tmp_path: Path) -> None:
    header = replace(HEADER, kind=kind, shape=of, heads=3)
    write_draft(tmp_path / "one.gguf", header, TENSORS)
    assert_same(read_draft(tmp_path / "one.gguf"), header)


def test_nothing_is_left_beside_it_and_one_that_stood_there_is_replaced(path: Path) -> None:
    write_draft(path, replace(HEADER, target="other"), TENSORS)
    assert read_draft(path).target == "other"
    assert [one.name for one in path.parent.iterdir()] == ["eagle.gguf"]


def test_vectors_stay_as_they_are_and_matrices_are_of_five_bits(path: Path) -> None:
    from gguf import GGMLQuantizationType

    kinds = {name: GGMLQuantizationType(entry.kind).name for name, entry in read_header(path).tensors.items()}
    assert kinds == {"output_norm.weight": "F32", "fusion.weight": "Q5_0"}


@pytest.mark.parametrize("left", [0, 3, 20, 100, 600, -5000, -1])
def test_a_file_that_is_cut_off_says_so(path: Path, left: int) -> None:
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(WeightsCorrupt, match="ghostdraft train-draft"):
        read_draft(path)


def test_another_model_is_no_draft(tmp_path: Path) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("output_norm.weight", TENSORS["output_norm.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(WeightsCorrupt, match=r"no draft of Ghostdraft.*ghostdraft train-draft"):
        read_draft(tmp_path / "model.gguf")


def test_a_draft_of_another_version_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_file, "FORMAT", 2)
    with pytest.raises(WeightsCorrupt, match=r"another version.*ghostdraft train-draft"):
        read_draft(path)


FIELDS = ("kind", "target_hidden", "shape", "heads", "vocabulary", "card")
VALUES: list[Any] = [None, "", "x", "[]", "5", "{", '{"layers": 1}', "[1]", [], [2**40], ["a"], -1.5]


@dataclass(frozen=True)
class Metadata:
    metadata: dict[str, Any]


def complaint(path: Path) -> str:
    """Of whoever reads the file; nothing where it is a draft."""
    try:
        read_draft(path)
    except WeightsCorrupt as error:
        return str(error)
    return ""


@pytest.mark.parametrize("field", FIELDS)
@given(value=st.sampled_from(VALUES) | st.just("missing"))
def test_a_field_that_makes_no_sense_is_no_draft(field: str, value: Any) -> None:
    fields = {**draft_file._fields(HEADER), "ghostdraft.vocabulary": [1, 5, 96], f"ghostdraft.{field}": value}
    if value == "missing":
        del fields[f"ghostdraft.{field}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft_file, "read_header", lambda _: Metadata(fields))
        found = complaint(Path("eagle.gguf"))
    assert (MEND in found) if found else value != "missing"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "eagle.gguf"
    write_draft(path, HEADER, TENSORS)
    return path


@given(at=st.integers(0, 4000), by=st.integers(1, 255))
def test_a_byte_that_turned_is_seen_or_harmless(at: int, by: int, one: Path) -> None:
    data = bytearray(one.read_bytes())
    data[at % len(data)] ^= by
    turned = one.with_name("turned.gguf")
    turned.write_bytes(data)
    assert complaint(turned) == "" or MEND in complaint(turned)
