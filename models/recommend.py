"""Which model, with which draft, suits a device: by its memory, its bandwidth, and licences that leave every use free.

One token reads all weights once, so its time is their bytes over the bandwidth. A draft of k tokens, each right with
chance a, brings (1 - a^(k + 1)) / (1 - a) tokens in a pass that costs 1 + k * (draft's bytes / target's + a row's
share) of a plain one (Leviathan et al. 2023, arXiv:2211.17192). Estimates: what a machine really does, benches tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ghostdraft.models.architectures import ARCHITECTURES
from ghostdraft.models.cost_file import gpu_name
from ghostdraft.models.cpu import convert
from ghostdraft.models.registry import MODELS, KnownModel

FREE = ("Apache-2.0", "MIT")  # licences without conditions on what it is used for
LEAST_RATE = 20.0  # tokens a second: a line takes half of one
CONTEXTS = (4096, 2048, 1024)  # tokens; on a CPU not the first, as it takes its time to read so many
RIGHT = 0.8  # of the tokens that a smaller model of the same family drafts; measured: 0.85
LEAST_GAIN = 1.4  # below which a draft is not worth its memory
DRAFTED = range(1, 9)  # tokens

_GPU_BYTES = {"bfloat16": 2.0, "int4": 0.8}  # a parameter; with int4 the head stays in 16 bits
_PROGRAM = {"cuda": 1_000_000_000, "mps": 500_000_000, "cpu": 300_000_000}  # bytes beside weights and cache
_CACHE = 100_000  # bytes a token, at most, of models whose queries share keys
_ROW = {"cuda": 0.02, "mps": 0.05, "cpu": 0.1}  # of a pass, for each further row


@dataclass(frozen=True, slots=True)
class Hardware:
    """`memory`: free bytes; `bandwidth`: bytes a second that its cores read together."""

    device: str  # "cuda", "mps" or "cpu"
    name: str
    memory: int
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """`precision` of the weights as `load` will have them there; `memory` in bytes; `rate` in tokens a second."""

    target: KnownModel
    draft: KnownModel | None
    precision: str
    context: int
    memory: int
    rate: float


def recommend(hardware: Hardware, known: Iterable[KnownModel] = tuple(MODELS.values())) -> Proposal | None:
    """The largest model that is quick enough; of several as large the first. None where there is none.

    Models without fill-in-the-middle, those with a short context, and those without a draft that pays are for where no
    other is quick enough.
    """
    usable = [proposal for model in known for proposal in _proposals(hardware, model)]
    quick = [proposal for proposal in usable if proposal.rate >= LEAST_RATE]
    return max(quick, key=partial(_rank, _contexts(hardware.device)[0]), default=None)


def _contexts(device: str) -> tuple[int, ...]:
    return CONTEXTS[1:] if device == "cpu" else CONTEXTS


def _rank(context: int, proposal: Proposal) -> tuple[bool, bool, bool, float]:
    target, whole = proposal.target, proposal.context >= context
    return bool(target.family.fim), whole, proposal.draft is not None, target.parameters


def _proposals(hardware: Hardware, model: KnownModel) -> Iterator[Proposal]:
    """One, or none where it does not run, may not be used or does not fit."""
    if model.licence not in FREE or not _runs(model, hardware.device):
        return
    for precision in (_cpu_precision(model),) if hardware.device == "cpu" else _GPU_BYTES:
        for context in sorted({min(context, model.context) for context in _contexts(hardware.device)}, reverse=True):
            if _memory(hardware.device, precision, context, model) <= hardware.memory:
                yield _with_draft(hardware, model, precision, context)
                return


def _with_draft(hardware: Hardware, target: KnownModel, precision: str, context: int) -> Proposal:
    """With the draft that brings most, or without one."""
    rate = hardware.bandwidth / _weights(precision, target)
    plain = Proposal(target, None, precision, context, _memory(hardware.device, precision, context, target), rate)
    pairs = [
        Proposal(
            target,
            draft,
            precision,
            context,
            _memory(hardware.device, precision, context, target, draft),
            rate * gain(_weights(precision, draft) / _weights(precision, target), _ROW[hardware.device]),
        )
        for draft in fitting_drafts(target)
        if _runs(draft, hardware.device)
    ]
    worth = [pair for pair in pairs if pair.memory <= hardware.memory and pair.rate >= LEAST_GAIN * rate]
    return max((plain, *worth), key=lambda proposal: proposal.rate)


def gain(cost: float, row: float) -> float:
    """How many times as fast decoding is with a draft whose pass costs `cost` of the target's, a further row `row`."""
    return max((1 - RIGHT ** (k + 1)) / (1 - RIGHT) / (1 + k * (cost + row)) for k in DRAFTED)


def fitting_drafts(target: KnownModel) -> list[KnownModel]:
    """Known, free, and of the target's own family: its tokens are the target's, however each pads its vocabulary."""
    drafts = (MODELS[name] for name in target.drafts)
    return [draft for draft in drafts if draft.family == target.family and draft.licence in FREE]


def _runs(model: KnownModel, device: str) -> bool:
    """By an engine of our own."""
    if device == "cpu":
        return model.plain and model.architecture in convert.RUNS
    return model.architecture in ARCHITECTURES


def _memory(device: str, precision: str, context: int, *models: KnownModel) -> int:
    return sum(int(_weights(precision, model)) + context * _CACHE for model in models) + _PROGRAM[device]


def _cpu_precision(model: KnownModel) -> str:
    return "as published" if model.file else "int8"


def _weights(precision: str, model: KnownModel) -> float:
    """Bytes."""
    return model.parameters * 1e9 * _GPU_BYTES[precision] if precision in _GPU_BYTES else model.cpu_weights


def measure_gpu(device: str) -> Hardware:
    """`device`: "cuda" or "mps". Takes a second, and PyTorch."""
    import torch

    if device == "cuda":
        memory = torch.cuda.mem_get_info()[0]
    else:
        memory = torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return Hardware(device, gpu_name(device), memory, _bandwidth_of_gpu(device, min(1 << 30, memory // 4)))


def _bandwidth_of_gpu(device: str, size: int) -> float:
    """By copies of `size` bytes, which are read and written."""
    import time

    import torch

    finish = torch.cuda.synchronize if device == "cuda" else torch.mps.synchronize
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    spent = []
    for _ in range(5):
        finish()
        started = time.perf_counter()
        target.copy_(source)
        finish()
        spent.append(time.perf_counter() - started)
    return 2 * size / min(spent)
