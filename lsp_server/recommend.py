"""`ghostdraft models recommend`: this machine is measured, and what suits it is told with licences and commands."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ghostdraft.completion.context import DEFAULT_CONTEXT
from ghostdraft.lsp_server import machine as machines
from ghostdraft.lsp_server.models_view import size_text
from ghostdraft.models import DEFAULT
from ghostdraft.models.load import GPUS, choose_device
from ghostdraft.models.recommend import LEAST_RATE, Hardware, Proposal, measure_gpu
from ghostdraft.models.registry import KnownModel
from ghostdraft.models.store import Store


def measure() -> Hardware:
    """Of the device that models would run on now."""
    device = choose_device("auto")
    return measure_gpu(device) if device in GPUS else _measure_cpu()


def _measure_cpu() -> Hardware:
    import psutil

    machine = machines.look()
    return Hardware("cpu", machine.processor, psutil.virtual_memory().available, machine.whole_bandwidth)


def view(hardware: Hardware, proposal: Proposal | None) -> dict[str, Any]:
    return {"hardware": asdict(hardware), "proposal": _proposal_view(proposal) if proposal else None}


def _proposal_view(proposal: Proposal) -> dict[str, Any]:
    return {
        "target": _model_view(proposal.target),
        "draft": _model_view(proposal.draft) if proposal.draft else None,
        "precision": proposal.precision,
        "context": proposal.context,
        "memory_bytes": proposal.memory,
        "tokens_per_second": round(proposal.rate, 1),
    }


def _model_view(model: KnownModel) -> dict[str, str]:
    return {"name": model.name, "licence": model.licence, "source": str(model.sources[0])}


def lines(hardware: Hardware, proposal: Proposal | None, store: Store) -> list[str]:
    """For people, a fact a line; what is in the store needs no fetching."""
    speed = f"{size_text(hardware.memory)} free, {hardware.bandwidth / 1e9:,.0f} GB/s"
    here = f"device     {hardware.name} ({hardware.device}), {speed}"
    if proposal is None:
        return [here, f"None of the known models writes {LEAST_RATE:.0f} tokens a second here. The smallest is tiny."]
    draft = _model_text(proposal.draft) if proposal.draft else "none: it would bring too little here"
    models = filter(None, (proposal.target, proposal.draft))
    return [
        here,
        f"model      {_model_text(proposal.target)}",
        f"draft      {draft}",
        f"precision  {proposal.precision}, context {proposal.context:,} tokens, about {size_text(proposal.memory)}",
        f"speed      about {proposal.rate:.0f} tokens a second, by the bytes that a token reads; benches tell",
        *(f"fetch      ghostdraft models pull {model.name}" for model in models if not store.has(model.name)),
        *_settings(proposal),
        *filter(None, (machines.gpu_note(),)),
    ]


def _settings(proposal: Proposal) -> list[str]:
    """What differs from the defaults."""
    chosen = {"model": proposal.target.name, "context": proposal.context}
    usual = {"model": DEFAULT, "context": DEFAULT_CONTEXT}
    lines = [f"{key} = {json.dumps(value)}" for key, value in chosen.items() if value != usual[key]]
    return [f"then       {', '.join(lines)} in config.toml"] if lines else []


def _model_text(model: KnownModel) -> str:
    return f"{model.name} ({model.licence}), {model.sources[0]}"
