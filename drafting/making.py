"""From a drafter's name to a drafter beside its target. Knows nothing of where text comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.corpus import CorpusDrafter
from ghostdraft.drafting.datastore import Datastore
from ghostdraft.drafting.draft_model import CONTEXT, DraftModel
from ghostdraft.drafting.eagle import Eagle
from ghostdraft.drafting.growing import GrowingDrafter, Guesser
from ghostdraft.drafting.medusa import Medusa
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.self_speculation import SelfSpeculation
from ghostdraft.drafting.types import Drafter
from ghostdraft.models.cpu.drafts import MedusaHeads, Norm, OpenDraft, StateHead, open_draft, reduced_head
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.draft_file import DraftKind, read_draft
from ghostdraft.models.drafts import find_draft
from ghostdraft.models.load import load
from ghostdraft.models.store import Store
from ghostdraft.models.types import (
    EngineUnavailable,
    IntArray,
    LanguageModel,
    ModelError,
    ModelSpec,
    Tokenizer,
)

EXIT = 2 / 3  # of the target's layers make a draft of its own


class Loaded(Protocol):
    """A target; `ghostdraft.models.load.Loaded` is one."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def model(self) -> LanguageModel: ...

    @property
    def device(self) -> str: ...


def make(name: str, target: Loaded, datastore: Datastore | None = None) -> Drafter:
    """`datastore`: what a drafter may copy from, where there is something. Raises ModelError where the target has no
    such draft, EngineUnavailable where its engine runs none, ModelError where there is nothing to copy from."""
    wanted = DrafterName(name)
    if wanted is DrafterName.NONE:
        return NoDrafter()
    if wanted is DrafterName.NGRAM:
        return NgramDrafter()
    if wanted is DrafterName.CORPUS:
        return _corpus(target, datastore)
    if wanted is DrafterName.HYBRID:
        copiers = [NgramDrafter(), *([] if datastore is None else [_corpus(target, datastore)])]
        return GrowingDrafter(name, _best_guesser(target), copiers)
    return GrowingDrafter(name, _GUESSERS[wanted](target))


def _corpus(target: Loaded, datastore: Datastore | None) -> Drafter:
    if datastore is None:
        raise ModelError("The drafter corpus copies from a workspace, and here is none. Use ngram.")
    return CorpusDrafter(datastore, target.tokenizer, target.spec)


def _best_guesser(target: Loaded) -> Guesser | None:
    """The one that pays most, of those that there are."""
    trained = isinstance(target.model, CpuModel)
    for kind in (DraftKind.EAGLE, DraftKind.DRAFT_MODEL):
        if trained and find_draft(target.spec.name, kind):
            return _GUESSERS[DrafterName(kind)](target)
    return _draft_model(target) if _smaller(target.spec) else None


def _opened(target: Loaded, kind: DraftKind) -> tuple[CpuModel, OpenDraft]:
    model, path = _on_cpu(target, kind), find_draft(target.spec.name, kind)
    if path is None:
        raise ModelError(
            f"{target.spec.name} has no draft of the kind {kind}. Train one: ghostdraft train-draft --kind {kind}"
        )
    return model, open_draft(path, model, CONTEXT)


def _on_cpu(target: Loaded, name: str) -> CpuModel:
    if not isinstance(target.model, CpuModel):
        raise EngineUnavailable(f"The drafter {name} runs on the CPU engine only. Use ngram, or --device cpu.")
    return target.model


def _draft_model(target: Loaded) -> Guesser:
    """One that was trained for it, else a smaller model of its family that is in the store."""
    smaller = _smaller(target.spec)
    if smaller is None or find_draft(target.spec.name, DraftKind.DRAFT_MODEL):
        _, draft = _opened(target, DraftKind.DRAFT_MODEL)
        return DraftModel(DrafterName.DRAFT_MODEL, draft.network, draft.vocabulary)
    model = load(smaller, target.device, CONTEXT, beside=target.model).model
    shared = min(model.shape.vocab, target.model.shape.vocab)
    return DraftModel(DrafterName.DRAFT_MODEL, model, np.arange(shared, dtype=np.int32))


def _smaller(spec: ModelSpec) -> str | None:
    store = Store()
    return next((name for name in spec.drafts if store.has(name)), None)


def _eagle(target: Loaded) -> Guesser:
    model, draft = _opened(target, DraftKind.EAGLE)
    norms = Norm.of(model), Norm.of(draft.network)
    return Eagle(DrafterName.EAGLE, draft.network, draft.vocabulary, *norms, model.shape.hidden)


def _medusa(target: Loaded) -> Guesser:
    _, draft = _opened(target, DraftKind.MEDUSA)
    return Medusa(DrafterName.MEDUSA, MedusaHeads(draft), draft.vocabulary)


def _self(target: Loaded) -> Guesser:
    model = _on_cpu(target, DrafterName.SELF)
    vocabulary = _usual_tokens(target)
    head = StateHead(reduced_head(model, vocabulary))
    return SelfSpeculation(DrafterName.SELF, model, round(EXIT * model.shape.layers), head, vocabulary)


def _usual_tokens(target: Loaded) -> IntArray:
    """Those of one of its drafts; all, where it has none."""
    paths = filter(None, (find_draft(target.spec.name, kind) for kind in DraftKind))
    path = next(paths, None)
    return np.arange(target.spec.shape.vocab, dtype=np.int32) if path is None else read_draft(path).vocabulary


_GUESSERS: dict[DrafterName, Callable[[Loaded], Guesser]] = {
    DrafterName.DRAFT_MODEL: _draft_model,
    DrafterName.EAGLE: _eagle,
    DrafterName.MEDUSA: _medusa,
    DrafterName.SELF: _self,
}
