"""Trained drafts on the CPU engine, beside their target: they borrow its embeddings, its head and its threads.

Knows tensors and shapes; nothing of how tokens are chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ghostdraft.models.cpu.blocks import pack
from ghostdraft.models.cpu.convert import covers, key, layer_names
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.cpu.sources import GgufSource, Name
from ghostdraft.models.cpu.weights import Packed, Weights
from ghostdraft.models.draft_file import MEND, DraftHeader, DraftKind, read_draft
from ghostdraft.models.types import FloatArray, IntArray, WeightsCorrupt

ONE_PASS = 64  # tokens: the context of what keeps none


@dataclass(frozen=True, slots=True)
class Norm:
    """RMSNorm (Zhang and Sennrich 2019); `weight` [hidden]."""

    weight: FloatArray
    eps: float

    @classmethod
    def of(cls, model: CpuModel) -> Norm:
        """The final one."""
        return cls(model.weights.vectors["final_norm.weight"], model.shape.rms_eps)

    def __call__(self, states: FloatArray) -> FloatArray:
        """[..., hidden]"""
        squares = np.square(states).mean(axis=-1, keepdims=True)
        normed: FloatArray = states / np.sqrt(squares + self.eps) * self.weight
        return normed


@dataclass(frozen=True, slots=True)
class OpenDraft:
    """`network` tells logits over `vocabulary` [draft vocab]. `inner`: of Medusa, from a state of the target to what
    its heads add to it, one behind the other."""

    header: DraftHeader
    network: CpuModel
    inner: CpuModel | None = None

    @property
    def vocabulary(self) -> IntArray:
        return self.header.vocabulary

    def close(self) -> None:
        for model in filter(None, (self.network, self.inner)):
            model.close()


class StateHead:
    """What a head alone says of states."""

    def __init__(self, head: CpuModel) -> None:
        self._head = head

    def __call__(self, states: FloatArray) -> FloatArray:
        """[n, hidden] -> [n, outputs]; valid until the next call."""
        rows = range(len(states))
        return self._head.forward([0] * len(states), rows, inputs=states).logits


class MedusaHeads:
    """Each head's state is the target's, normed, and silu of what it makes of that (T. Cai et al. 2024)."""

    def __init__(self, draft: OpenDraft) -> None:
        assert draft.inner is not None
        self._inner, self._head = StateHead(draft.inner), StateHead(draft.network)
        self._norm = Norm.of(draft.inner)

    def __call__(self, hidden: FloatArray) -> FloatArray:
        """From a state [hidden] of the target, before its final norm, logits [heads, draft vocab]."""
        steps = self._inner(hidden[None]).reshape(-1, len(hidden))
        return self._head(self._norm(hidden) + steps / (1 + np.exp(-steps)))


def open_draft(path: Path, target: CpuModel, context: int) -> OpenDraft:
    """`context`: of a network that keeps tokens. Raises WeightsCorrupt, EngineUnavailable."""
    header = read_draft(path)
    _check(path, header, target)
    try:
        source = GgufSource(path, header.shape)
        if header.kind is DraftKind.MEDUSA:
            return _medusa(header, source, target)
        return OpenDraft(header, CpuModel(_network(header, source, target), context, beside=target))
    except WeightsCorrupt as error:
        raise WeightsCorrupt(f"{error} {MEND}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsCorrupt(f"{path} is damaged. {MEND}") from error


def reduced_head(target: CpuModel, vocabulary: IntArray, norm: FloatArray | None = None) -> CpuModel:
    """The target's norm, or another one, and its head's rows of `vocabulary` alone: states in, logits out."""
    vectors = {"final_norm.weight": target.weights.vectors["final_norm.weight"] if norm is None else norm}
    return _head_alone(target, {"head.weight": target.weights.head.take(vocabulary)}, vectors)


def _check(path: Path, header: DraftHeader, target: CpuModel) -> None:
    """That it is for this target, and that its header can be right."""
    if (header.target_hidden, header.shape.vocab) != (target.shape.hidden, target.shape.vocab):
        raise WeightsCorrupt(f"{path} was trained for {header.target}, which is of another size. {MEND}")
    known = header.vocabulary
    ascending = known.ndim == 1 and len(known) > 0 and (np.diff(known) > 0).all()
    fits = header.kind is not DraftKind.MEDUSA or header.shape.hidden == target.shape.hidden
    if not ascending or known[0] < 0 or known[-1] >= target.shape.vocab or not fits or covers(header.shape):
        raise WeightsCorrupt(f"{path} is damaged: what it says of itself cannot be. {MEND}")


def _network(header: DraftHeader, source: GgufSource, target: CpuModel) -> Weights:
    names = [Name("fusion"), *layer_names(header.shape), Name("final_norm"), Name("head")]
    weights = _packed(header, source, names)
    embedding = target.weights.matrices["embedding.weight"]
    return replace(weights, matrices={**weights.matrices, "embedding.weight": embedding})


def _medusa(header: DraftHeader, source: GgufSource, target: CpuModel) -> OpenDraft:
    weights = _packed(header, source, [Name("inner"), Name("inner", kind="bias"), Name("final_norm")])
    norm, bias = weights.vectors["final_norm.weight"], weights.vectors["inner.bias"]
    vectors = {"final_norm.weight": target.weights.vectors["final_norm.weight"], "head.bias": bias}
    inner = _head_alone(target, {"head.weight": weights.matrices["inner.weight"]}, vectors)
    return OpenDraft(header, reduced_head(target, header.vocabulary, norm), inner)


def _head_alone(target: CpuModel, head: Mapping[str, Packed], vectors: Mapping[str, FloatArray]) -> CpuModel:
    shape = replace(target.shape, layers=0, heads=1, kv_heads=1, head_dim=32, mlp=32, tied=False)
    return CpuModel(Weights(shape, head, vectors), ONE_PASS, beside=target)


def _packed(header: DraftHeader, source: GgufSource, names: Iterable[Name]) -> Weights:
    matrices: dict[str, Packed] = {}
    vectors: dict[str, FloatArray] = {}
    for name in names:
        wanted = _size(header, name)
        if name.is_vector:
            vector = vectors[key(name)] = source.vector(name)
            found: tuple[int, ...] = vector.shape
        else:
            found, form = source.size(name), source.form(name)
            data = b"".join(pack(quants, form) for quants in source.slices(name))
            matrices[key(name)] = Packed(form, *source.size(name), np.frombuffer(data, np.uint8))
        if found != wanted:
            raise ValueError(f"{name.of_gguf()} is of the size {found}, not {wanted}")
    return Weights(header.shape, matrices, vectors)


def _size(header: DraftHeader, name: Name) -> tuple[int, ...]:
    """That the engine takes a tensor to have: rows and columns, or a vector's length."""
    shape = header.shape
    hidden, queries, keys = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    states = header.target_hidden + hidden if header.kind is DraftKind.EAGLE else 0
    rows, columns = {
        "fusion": (hidden, header.target_hidden + states),
        "q": (queries, hidden),
        "k": (keys, hidden),
        "v": (keys, hidden),
        "o": (hidden, queries),
        "gate": (shape.mlp, hidden),
        "up": (shape.mlp, hidden),
        "down": (hidden, shape.mlp),
        "head": (len(header.vocabulary), hidden),
        "inner": (header.heads * hidden, hidden),
    }.get(name.part, (hidden, 0))
    return (rows,) if name.is_vector else (rows, columns)
