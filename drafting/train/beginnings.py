"""Networks before they are trained: new ones, and those that a draft's file holds, to be refined.

A new one knows the target's tokens from the start: its embeddings and its head begin as what is largest in the target's
own embeddings. Knows nothing of training.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ghostdraft.drafting.train.export import restore
from ghostdraft.drafting.train.losses import TargetHead
from ghostdraft.drafting.train.network import HEAD_DIM, Block, DraftNetwork, EagleNetwork, MedusaHeads, Sizes
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu.floats import TargetFloats
from ghostdraft.models.draft_file import DraftHeader, DraftKind, read_draft, read_tensors
from ghostdraft.models.types import IntArray, Shape, WeightsCorrupt

MEDUSA_HEADS = 4
EMBEDDED = 0.5  # spread of what a new projection makes of embeddings
HEAD_SPREAD = 0.02  # of a new head's weights
QUIET = 0.3  # of their usual size: what a new block adds to what it is given


@dataclass(frozen=True, slots=True)
class Target:
    """What a draft is made of and learns from: the target's embeddings [vocab, hidden] in float16, and its head's rows
    of the draft `vocabulary`."""

    shape: Shape
    embedding: torch.Tensor
    head: TargetHead
    vocabulary: IntArray

    @classmethod
    def of(cls, checkpoint: Checkpoint, vocabulary: IntArray) -> Target:
        """Raises EngineUnavailable, WeightsCorrupt."""
        floats, shape = TargetFloats(checkpoint), checkpoint.spec.shape
        rows = torch.from_numpy(floats.head(vocabulary)).bfloat16()
        head = TargetHead(torch.from_numpy(floats.norm()), rows, shape.rms_eps)
        return cls(shape, torch.from_numpy(floats.embedding()), head, vocabulary)


def new_network(kind: DraftKind, target: Target) -> nn.Module:
    match kind:
        case DraftKind.DRAFT_MODEL:
            return _new_draft_model(target)
        case DraftKind.EAGLE:
            return EagleNetwork(_new_draft_model(target), target.shape.hidden)
        case DraftKind.MEDUSA:
            return _new_medusa(target)


def stored_network(path: Path, kind: DraftKind, target: Target) -> nn.Module:
    """From a file of this kind, or of a draft model for an EAGLE. Raises WeightsCorrupt where it has another target."""
    header = read_draft(path)
    if (header.target_hidden, header.shape.vocab) != (target.shape.hidden, target.shape.vocab):
        raise WeightsCorrupt(f"{path} was trained for {header.target}, which is of another size. Remove it.")
    network = _empty(header, target)
    restore(network, read_tensors(path))
    if kind is DraftKind.EAGLE and isinstance(network, DraftNetwork):
        return EagleNetwork(network, target.shape.hidden)
    return network


def _empty(header: DraftHeader, target: Target) -> nn.Module:
    shape = header.shape
    if header.kind is DraftKind.MEDUSA:
        return MedusaHeads(header.target_hidden, header.heads)
    sizes = Sizes(shape.hidden, shape.layers, shape.heads, shape.kv_heads, shape.mlp)
    draft = DraftNetwork(sizes, target.embedding, len(header.vocabulary))
    return EagleNetwork(draft, header.target_hidden) if header.kind is DraftKind.EAGLE else draft


def _new_draft_model(target: Target) -> DraftNetwork:
    network = DraftNetwork(_sizes(target.shape), target.embedding, len(target.vocabulary))
    rows = target.embedding[torch.from_numpy(target.vocabulary).long()].float()
    main = torch.svd_lowrank(rows, q=network.sizes.hidden, niter=4)[2]  # [hidden, draft's hidden]
    spread = (rows @ main).std()
    network.projection.weight.detach().copy_(main.T * (EMBEDDED / spread))
    network.head.weight.detach().copy_(rows @ main * (HEAD_SPREAD / spread))
    for block in network.trunk.blocks:
        _calm(block)
    return network


def _calm(block: nn.Module) -> None:
    assert isinstance(block, Block)
    for linear in (block.o, block.down):
        linear.weight.detach().mul_(QUIET)


def _new_medusa(target: Target) -> MedusaHeads:
    """States keep the size that they have behind the target's norm."""
    heads = MedusaHeads(target.shape.hidden, MEDUSA_HEADS)
    heads.final_norm.weight.detach().fill_(float(target.head.norm.square().mean().sqrt()))
    return heads


def _sizes(target: Shape) -> Sizes:
    """Never wider than the target."""
    usual = Sizes()
    if target.hidden >= usual.hidden:
        return usual
    heads = max(1, target.hidden // HEAD_DIM)
    return Sizes(target.hidden, heads=heads, kv_heads=heads, mlp=2 * target.hidden)
