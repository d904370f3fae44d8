"""From a name in the store to a model that runs, on the device that this machine has.

PyTorch is imported only where its engine is wanted. Knows nothing of downloads.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ghostdraft.models import tokenizer
from ghostdraft.models.architectures import ARCHITECTURES
from ghostdraft.models.checkpoint import Checkpoint, mend_told
from ghostdraft.models.cost_file import CostFile, cost_file
from ghostdraft.models.cpu.convert import covers
from ghostdraft.models.disk import disk_errors
from ghostdraft.models.safetensors_header import read_shapes
from ghostdraft.models.store import Store
from ghostdraft.models.types import (
    EngineUnavailable,
    LanguageModel,
    ModelSpec,
    OutOfMemory,
    Tokenizer,
    WeightsCorrupt,
    WeightsTooLarge,
)

DEVICES = ("auto", "cpu", "cpu-torch", "cuda", "mps")
GPUS = ("cuda", "mps")
PRECISIONS = ("bfloat16", "int4")  # of weights on a GPU; the first that fits is taken
SHORTEST = 1024  # tokens: a context that is worth a model


@dataclass(frozen=True, slots=True)
class Loaded:
    """`device` is the one it runs on: one of DEVICES but "auto". `costs` keeps what its passes cost here. `note` is for
    the user where the device was no choice."""

    spec: ModelSpec
    tokenizer: Tokenizer
    model: LanguageModel
    device: str
    costs: CostFile
    note: str = ""


def load(
    name: str,
    device: str = "auto",
    context: int = 4096,
    threads: int | None = None,
    beside: LanguageModel | None = None,
) -> Loaded:
    """`context` in tokens, at most the model's own; `threads` of the CPU engine, by default as many as cores, or those
    of `beside`, a model of the same device.

    On "auto" without a GPU, a model that the CPU engine does not cover runs in PyTorch.

    Raises ModelNotFound, WeightsCorrupt, EngineUnavailable, OutOfSpace, ModelError.
    """
    store = Store()
    checkpoint = store.find(name)
    chosen = choose_device(device)
    if device == "auto" and chosen == "cpu" and (reason := covers(checkpoint.spec.shape)):
        _check_torch(f"{name}: {reason}")
        chosen = "cpu-torch"
    context = min(context, checkpoint.spec.shape.context)
    with mend_told(checkpoint.mend):
        words = tokenizer.load(checkpoint.tokenizer_path)
        if chosen not in GPUS:
            return _load_on_cpu(store, checkpoint, words, chosen, context, threads, beside)
        try:
            return _load_on_gpu(checkpoint, words, chosen, context)
        except OutOfMemory as error:
            chosen = "cpu-torch" if covers(checkpoint.spec.shape) else "cpu"
            loaded = _load_on_cpu(store, checkpoint, words, chosen, context, threads)
            return replace(loaded, note=f"{error} {loaded.note}".strip())


def _load_on_cpu(
    store: Store,
    checkpoint: Checkpoint,
    words: Tokenizer,
    device: str,
    context: int,
    threads: int | None,
    beside: LanguageModel | None = None,
) -> Loaded:
    if device == "cpu":
        model = _cpu(store, checkpoint, context, threads, beside)
    else:
        model = _torch(checkpoint, "cpu", "float32", context)
    costs = cost_file(checkpoint, device, threads)
    return Loaded(checkpoint.spec, words, model, device, costs, _note(checkpoint.spec, device))


def _load_on_gpu(checkpoint: Checkpoint, words: Tokenizer, device: str, context: int) -> Loaded:
    """In the first precision, with the longest context, that there is memory for. Raises OutOfMemory where there is
    none."""
    _check_torch(f"{device} is a device of PyTorch")
    spec = checkpoint.spec
    for precision in PRECISIONS if spec.shape.architecture in ARCHITECTURES else PRECISIONS[:1]:
        for room in _contexts(context):
            try:
                model = _torch(checkpoint, device, precision, room)
            except WeightsTooLarge:
                break
            except OutOfMemory:
                continue
            notes = (_note(spec, device), _short_of_memory(spec.name, precision, room if room < context else None))
            costs = cost_file(checkpoint, device, precision=precision)
            return Loaded(spec, words, model, device, costs, " ".join(filter(None, notes)))
    raise OutOfMemory(
        f"The GPU has too little memory for {checkpoint.name}, so it runs on the CPU, more slowly. Close what else "
        "uses the GPU, or take a smaller model: ghostdraft models recommend."
    )


def _contexts(context: int) -> Iterator[int]:
    """In tokens: the one that is wanted, then ever smaller ones."""
    yield context
    while (context := context // 2) >= SHORTEST:
        yield context


def _short_of_memory(name: str, precision: str, context: int | None) -> str:
    """What had to give way to the GPU's memory; `context` where it is that."""
    facts = ["has its weights in 4 bits, so it writes a little worse"] if precision == "int4" else []
    facts += [f"sees {context:,} tokens at most"] if context else []
    return f"The GPU has little memory: {name} {' and '.join(facts)}." if facts else ""


def _check_torch(reason: str) -> None:
    """Raises EngineUnavailable where it is wanted, for this reason, and not here."""
    if importlib.util.find_spec("torch") is None:
        raise EngineUnavailable(f"{reason}. With PyTorch it may run: pip install 'ghostdraft[gpu]'.")


def _note(spec: ModelSpec, device: str) -> str:
    """Why it is slow, where that lies at the model."""
    if device != "cpu" and spec.shape.architecture not in ARCHITECTURES:
        return f"{spec.name} runs through transformers, which is slow: no engine here has {spec.shape.architecture}."
    reason = covers(spec.shape) if device == "cpu-torch" else None
    return f"{spec.name} runs in PyTorch on the CPU, which is slow: {reason}." if reason else ""


def choose_device(device: str) -> str:
    """Raises EngineUnavailable for a name that is none."""
    if device not in DEVICES:
        raise EngineUnavailable(f"There is no device {device}. Give one of: {', '.join(DEVICES)}.")
    return device if device != "auto" else _best_device()


def has_accelerator() -> bool:
    """Whether this machine seems to have a GPU that PyTorch could use; told without importing it."""
    nvidia = Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None
    return nvidia or (platform.system() == "Darwin" and platform.machine() == "arm64")


def _best_device() -> str:
    if not has_accelerator() or importlib.util.find_spec("torch") is None:
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _cpu(
    store: Store, checkpoint: Checkpoint, context: int, threads: int | None, beside: LanguageModel | None
) -> LanguageModel:
    from ghostdraft.models.cpu.convert import convert, is_current, is_intact
    from ghostdraft.models.cpu.model import CpuModel

    def is_usable() -> bool:
        return is_current(checkpoint.cpu_weights) and is_intact(checkpoint.cpu_weights)

    if not is_usable():
        with disk_errors(store.home), store.lock(checkpoint.name, lambda: None):
            if not is_usable():  # another process may have been first
                _check_sources(checkpoint)
                convert(checkpoint)
    partner = beside if isinstance(beside, CpuModel) else None
    return CpuModel(checkpoint.cpu_weights, context, threads, beside=partner)


def _check_sources(checkpoint: Checkpoint) -> None:
    """Checksums, and headers of safetensors; a GGUF file's is checked by whoever reads it. Raises WeightsCorrupt."""
    from ghostdraft.models.transfer import file_sha256

    for file in checkpoint.files:
        if file.sha256 and file_sha256(checkpoint.folder / file.name) != file.sha256:
            raise WeightsCorrupt(f"{file.name} is not as it came in.")
    for path in checkpoint.weights:
        if path.suffix == ".safetensors":
            read_shapes(path)


def _torch(checkpoint: Checkpoint, device: str, precision: str, context: int) -> LanguageModel:
    """`device` as PyTorch names it; `precision` "float32" or one of PRECISIONS. Raises OutOfMemory."""
    if checkpoint.spec.shape.architecture not in ARCHITECTURES:
        from ghostdraft.models.fallback import FallbackModel

        return FallbackModel(checkpoint, device, precision, context)
    if device == "cuda" or precision == "int4":
        from ghostdraft.models.graphs import open_model

        return open_model(checkpoint, device, precision, context)
    from ghostdraft.models.transformer import TorchModel

    return TorchModel(checkpoint, device, precision, context)
