"""Loading by name: the engine that fits the device, and nothing imported that is not needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from ghostdraft.models import graphs
from ghostdraft.models import load as loading
from ghostdraft.models.acquire import import_file
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cost_file import cost_file
from ghostdraft.models.costs import Costs
from ghostdraft.models.cpu.model import VARIANT, variants
from ghostdraft.models.load import Loaded, choose_device, load
from ghostdraft.models.store import Store
from ghostdraft.models.transformer import TorchModel
from ghostdraft.models.types import EngineUnavailable, ModelNotFound, OutOfMemory, WeightsCorrupt, WeightsTooLarge
from tests.models.published import byte_level, gguf_file, safetensors_folder
from tests.models.random_checkpoints import LENGTH, publish
from tests.models.small_models import run, tokens

MEASURED = Costs(512, ((1, 0.01), (8, 0.02)), ((64, 0.1),), 2e-5)


def test_tiny_runs_on_the_cpu(tiny: Checkpoint) -> None:
    loaded = load("tiny", "cpu", context=128)
    assert (loaded.spec, loaded.device) == (tiny.spec, "cpu")
    prompt = loaded.tokenizer.encode("def add(a, b):\n    return a +")
    logits = loaded.model.forward(prompt, [len(prompt) - 1]).logits
    assert loaded.tokenizer.decode_bytes([int(logits[0].argmax())]) == b" b"
    assert loaded.model.context == 128


def test_the_context_is_at_most_the_models_own(tiny: Checkpoint) -> None:
    assert load("tiny", "cpu", context=10**6).model.context == tiny.spec.shape.context


def test_both_engines_load_the_same_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    import_file(Store(), gguf_file(tmp_path / "small.gguf"))
    logits = [load("small", device).model.forward([5, 6, 7], [2]).logits for device in ("cpu", "cpu-torch")]
    np.testing.assert_allclose(logits[0], logits[1], atol=0.05 * np.abs(logits[1]).max())


def test_published_weights_that_changed_on_disk_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    checkpoint = import_file(Store(), gguf_file(tmp_path / "small.gguf"))
    content = bytearray(checkpoint.weights[0].read_bytes())
    content[-100] ^= 1
    checkpoint.weights[0].write_bytes(content)
    load("small", "cpu")  # what was made of them before is whole
    checkpoint.cpu_weights.unlink()
    with pytest.raises(WeightsCorrupt, match=checkpoint.weights[0].name):
        load("small", "cpu")


def test_what_passes_cost_is_kept_by_weights_engine_and_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    checkpoint = import_file(Store(), gguf_file(tmp_path / "small.gguf"))
    load("small", "cpu", threads=2).costs.write(MEASURED)
    assert load("small", "cpu", threads=2).costs.read() == cost_file(checkpoint, "cpu", 2).read() == MEASURED
    assert load("small", "cpu", threads=1).costs.read() is None
    assert load("small", "cpu-torch").costs.read() is None
    other_weights = tuple(replace(file, sha256="0" * 64) for file in checkpoint.files)
    assert cost_file(replace(checkpoint, files=other_weights), "cpu", 2).read() is None
    monkeypatch.setenv(VARIANT, variants()[-1])
    assert (cost_file(checkpoint, "cpu", 2).read() is None) == (len(variants()) > 1)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made[:-1],
        lambda made: made[:8] + b"\0" + made[9:],
        lambda made: made[: len(made) // 2] + bytes(64) + made[len(made) // 2 + 64 :],
        lambda made: made[:-1] + bytes([made[-1] ^ 1]),
        lambda _made: b"",
    ],
    ids=["cut", "of another version", "with a hole", "with another checksum", "empty"],
)
def test_weights_that_are_not_as_they_were_written_are_made_anew(
    spoil: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    checkpoint = import_file(Store(), gguf_file(tmp_path / "small.gguf"))
    made = checkpoint.cpu_weights.read_bytes()
    checkpoint.cpu_weights.write_bytes(spoil(made))
    load("small", "cpu")
    assert checkpoint.cpu_weights.read_bytes() == made


@pytest.mark.parametrize("what", ["weights", "tokenizer"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_damage_is_told_with_the_commands_that_mend_it(
    kind: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    original = gguf_file(tmp_path / "a.gguf") if kind == "file" else safetensors_folder(tmp_path / "a")
    checkpoint = import_file(Store(), original, "mine")
    checkpoint.cpu_weights.unlink()
    spoilt = checkpoint.weights[0] if what == "weights" else checkpoint.tokenizer_path
    spoilt.write_bytes(b"{}".ljust(spoilt.stat().st_size) if what == "tokenizer" else bytes(spoilt.stat().st_size))
    with pytest.raises(WeightsCorrupt) as caught:
        load("mine", "cpu")
    commands = f"ghostdraft models remove mine && ghostdraft models import {original} --name mine"
    assert str(caught.value).endswith(commands)
    Store().remove("mine")
    import_file(Store(), original, "mine")
    load("mine", "cpu")


def test_the_cpu_path_imports_no_torch(tiny: Checkpoint) -> None:
    program = (
        "import sys; from ghostdraft.models.load import load; load('tiny', 'cpu'); "
        "sys.exit(bool({'torch', 'transformers', 'huggingface_hub', 'requests'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-P", "-c", program], check=False).returncode == 0
    assert tiny.name == "tiny"


def test_a_device_that_is_none_is_told() -> None:
    with pytest.raises(EngineUnavailable, match="auto, cpu"):
        choose_device("tpu")


def test_auto_is_the_cpu_where_no_accelerator_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "has_accelerator", lambda: False)
    assert choose_device("auto") == "cpu"


def test_auto_is_the_cpu_where_torch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "has_accelerator", lambda: True)
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda _name: None)
    assert choose_device("auto") == "cpu"


@pytest.fixture
def starcoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """In the store as "star"; GPUs are not looked for."""
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "has_accelerator", lambda: False)
    publish("starcoder2", {"vocab_size": 300}, tmp_path / "star")
    byte_level().save(str(tmp_path / "star" / "tokenizer.json"))
    import_file(Store(), tmp_path / "star")
    return tmp_path / "star"


def test_what_the_cpu_engine_does_not_cover_runs_in_pytorch(starcoder: Path) -> None:
    loaded = load("star")
    assert loaded.device == "cpu-torch"
    assert loaded.note.startswith("star runs in PyTorch on the CPU, which is slow: ")
    expected = AutoModelForCausalLM.from_pretrained(starcoder)(torch.tensor([[5, 6, 7]])).logits[0].detach().numpy()
    np.testing.assert_allclose(loaded.model.forward([5, 6, 7], range(3)).logits, expected, atol=1e-4)


def test_a_model_for_pytorch_says_so_where_pytorch_is_missing(starcoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(EngineUnavailable, match=r"starcoder2.*ghostdraft\[gpu\]"):
        load(starcoder.name)


def test_what_no_engine_has_runs_through_transformers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "has_accelerator", lambda: False)
    one = publish("gpt_bigcode", {"vocab_size": 300}, tmp_path / "big")
    byte_level().save(str(tmp_path / "big" / "tokenizer.json"))
    import_file(Store(), tmp_path / "big")
    loaded = load("big")
    assert loaded.note == "big runs through transformers, which is slow: no engine here has gpt_bigcode."
    np.testing.assert_allclose(run(loaded.model, tokens(LENGTH)), one.expected, atol=1e-4)


def test_a_gguf_file_that_no_engine_runs_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "has_accelerator", lambda: False)
    import_file(Store(), gguf_file(tmp_path / "gem.gguf", architecture="gemma"))
    with pytest.raises(EngineUnavailable, match=r"gemma in a GGUF file.*safetensors"):
        load("gem")


def test_what_the_cpu_engine_covers_has_no_note(tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "has_accelerator", lambda: False)
    assert (load(tiny.name).device, load(tiny.name).note) == ("cpu", "")


def test_what_is_not_in_the_store_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path))
    with pytest.raises(ModelNotFound, match="models pull tiny"):
        load("tiny")


# ---- a GPU that is short of memory


@dataclass
class SmallGpu:
    """Holds a model of no more than this context; "bfloat16" weights only if they fit."""

    context: int
    holds: tuple[str, ...] = ("bfloat16", "int4")
    name: str = "a small GPU"
    tried: list[tuple[str, int]] = field(default_factory=list)

    def open_model(self, checkpoint: Checkpoint, _device: str, precision: str, context: int) -> TorchModel:
        self.tried.append((precision, context))
        if precision not in self.holds:
            raise WeightsTooLarge("weights")
        if context > self.context:
            raise OutOfMemory("context")
        return TorchModel(checkpoint, context=context)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[SmallGpu], Loaded]:
    """Loads "wide", whose context is 512 tokens, onto that GPU."""
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "SHORTEST", 100)
    import_file(Store(), gguf_file(tmp_path / "wide.gguf"))

    def onto(gpu: SmallGpu) -> Loaded:
        monkeypatch.setattr(graphs, "open_model", gpu.open_model)
        monkeypatch.setattr("ghostdraft.models.cost_file.gpu_name", lambda _device: gpu.name)
        return load("wide", "cuda")

    return onto


def test_a_gpu_with_memory_takes_all_and_says_nothing(on_gpu: Callable[[SmallGpu], Loaded]) -> None:
    loaded = on_gpu(SmallGpu(512))
    assert (loaded.device, loaded.model.context, loaded.note) == ("cuda", 512, "")


def test_what_passes_cost_on_a_gpu_is_kept_by_its_name_and_the_precision(on_gpu: Callable[[SmallGpu], Loaded]) -> None:
    on_gpu(SmallGpu(512)).costs.write(MEASURED)
    assert on_gpu(SmallGpu(256)).costs.read() == MEASURED
    assert on_gpu(SmallGpu(512, holds=("int4",))).costs.read() is None
    assert on_gpu(SmallGpu(512, name="another")).costs.read() is None


def test_what_does_not_fit_gets_a_smaller_context(on_gpu: Callable[[SmallGpu], Loaded]) -> None:
    gpu = SmallGpu(150)
    loaded = on_gpu(gpu)
    assert gpu.tried == [("bfloat16", 512), ("bfloat16", 256), ("bfloat16", 128)]
    assert (loaded.device, loaded.model.context) == ("cuda", 128)
    assert loaded.note == "The GPU has little memory: wide sees 128 tokens at most."


def test_weights_that_do_not_fit_are_tried_in_4_bits_and_no_smaller_context(
    on_gpu: Callable[[SmallGpu], Loaded],
) -> None:
    gpu = SmallGpu(256, holds=("int4",))
    loaded = on_gpu(gpu)
    assert gpu.tried == [("bfloat16", 512), ("int4", 512), ("int4", 256)]
    assert "4 bits" in loaded.note
    assert "256 tokens" in loaded.note


def test_what_fits_no_gpu_runs_on_the_cpu_and_says_why(on_gpu: Callable[[SmallGpu], Loaded]) -> None:
    for gpu in (SmallGpu(50), SmallGpu(512, holds=())):
        loaded = on_gpu(gpu)
        assert (loaded.device, loaded.model.context) == ("cpu", 512)
        assert "too little memory for wide" in loaded.note
        assert "ghostdraft models recommend" in loaded.note
        assert loaded.model.forward([5, 6, 7], [2]).logits.shape[0] == 1


def test_a_gpu_without_pytorch_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tiny: Checkpoint) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(EngineUnavailable, match=r"ghostdraft\[gpu\]"):
        load(tiny.name, "cuda")
