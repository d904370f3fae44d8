"""What is known of a model, from the store and from the table, as one mapping for JSON and as text for people.

Knows nothing of the command line's options, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from ghostdraft.models import registry
from ghostdraft.models.architectures import ARCHITECTURES
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu import convert
from ghostdraft.models.registry import KnownModel
from ghostdraft.models.store import Store, absent
from ghostdraft.models.types import FimTemplate, ModelNotFound

View = Mapping[str, Any]

# by the engines that run a model
_ENGINES = {
    (): ": no engine here runs it yet",
    ("transformers",): ": no engine here has it, so transformers runs it, slowly: pip install 'ghostdraft[gpu]'",
    ("torch",): ": in PyTorch only, slow without a GPU: pip install 'ghostdraft[gpu]'",
    ("cpu", "torch"): "",
}
_ENGINES_SHORT = {
    (): ", no engine yet",
    ("transformers",): ", transformers only",
    ("torch",): ", PyTorch only",
    ("cpu", "torch"): "",
}
_FIM_SOURCES = {"registry": "known for this model", "tokenizer": "found in its tokenizer"}


def view(store: Store, name: str) -> View:
    """Raises ModelNotFound for a name that is neither in the store nor in the table, WeightsCorrupt."""
    known = registry.MODELS.get(name)
    if store.has(name):
        return {**(_of_table(known) if known else {}), **_of_store(store.find(name))}
    if known is None:
        raise ModelNotFound(absent(name))
    return _of_table(known)


def all_views(store: Store) -> list[View]:
    """The store's own models first, then the table's, in its order. Damaged ones count as not there."""
    here = [checkpoint.name for checkpoint in store.list()]
    others = [view(store, name) for name in here if name not in registry.MODELS]
    return others + [view(store, name) if name in here else _of_table(known) for name, known in registry.MODELS.items()]


def _of_table(known: KnownModel) -> View:
    return {
        "name": known.name,
        "installed": False,
        "description": known.note or known.family.name,
        "licence": known.licence,
        "context": known.context,
        "download_bytes": known.file.size if known.file else None,
        "sha256": known.file.sha256 if known.file else None,
        "sources": [str(source) for source in known.sources],
        "fim": _fim(known.family.fim, "registry" if known.family.fim else "none"),
        "drafts": list(known.drafts),
        "memory_bytes": {"cpu": known.cpu_memory, "gpu": known.gpu_memory},
        "architecture": known.architecture,
        "engines": _engines(known.plain and known.architecture in convert.RUNS, known.architecture, True),
    }


def _of_store(checkpoint: Checkpoint) -> View:
    spec = checkpoint.spec
    return {
        "name": spec.name,
        "installed": True,
        "folder": str(checkpoint.folder),
        "origin": checkpoint.origin,
        "disk_bytes": checkpoint.size,
        "licence": spec.licence,
        "context": spec.shape.context,
        "fim": _fim(spec.fim, spec.fim_source),
        "drafts": list(spec.drafts),
        "architecture": spec.shape.architecture,
        "engines": _engines(convert.covers(spec.shape) is None, spec.shape.architecture, _has_safetensors(checkpoint)),
    }


def _engines(covered: bool, architecture: str, safetensors: bool) -> list[str]:
    """Those that run the model; transformers runs the rest, as far as it knows them."""
    if architecture in ARCHITECTURES:
        return ["cpu", "torch"] if covered else ["torch"]
    return ["transformers"] if safetensors else []


def _has_safetensors(checkpoint: Checkpoint) -> bool:
    return checkpoint.weights[0].suffix == ".safetensors"


def _fim(templates: Iterable[FimTemplate], source: str) -> View:
    return {"orders": [template.order.value for template in templates], "source": source}


def table(views: Iterable[View]) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for heading in ("name", "on disk", "context", "memory", "licence", ""):
        drawn.add_column(heading, no_wrap=heading not in ("licence", ""))
    for one in views:
        memory = size_text(one["memory_bytes"]["cpu"]) if "memory_bytes" in one else ""
        disk = size_text(one["disk_bytes"]) if one["installed"] else "-"
        about = one.get("description", one.get("origin", "")) + _ENGINES_SHORT[tuple(one["engines"])]
        drawn.add_row(one["name"], disk, f"{one['context']:,}", memory, one["licence"], about)
    return drawn


def lines(one: View) -> list[str]:
    """What `info` says, a fact a line."""
    facts = {
        "model": one.get("description"),
        "licence": one["licence"],
        "on disk": f"{size_text(one['disk_bytes'])} in {one['folder']}" if one["installed"] else _how_to_pull(one),
        "from": one.get("origin") or ", else ".join(one["sources"]),
        "context": f"{one['context']:,} tokens",
        "fill-in-the-middle": _fim_text(one["fim"]),
        "memory": _memory_text(one),
        "drafts that fit": ", ".join(one["drafts"]),
        "architecture": one["architecture"] + _ENGINES[tuple(one["engines"])],
    }
    width = max(map(len, facts))
    return [f"{what:<{width}}  {text}" for what, text in facts.items() if text]


def _how_to_pull(one: View) -> str:
    size = f" ({size_text(one['download_bytes'])})" if one["download_bytes"] else ""
    return f"not yet: ghostdraft models pull {one['name']}{size}"


def _fim_text(fim: View) -> str:
    if fim["source"] == "none":
        return "none: it continues the text before the cursor and does not see what stands behind it"
    return f"{', '.join(fim['orders'])} ({_FIM_SOURCES[fim['source']]})"


def _memory_text(one: View) -> str:
    memory = one.get("memory_bytes")
    return f"{size_text(memory['cpu'])} on the CPU, {size_text(memory['gpu'])} on a GPU" if memory else ""


def size_text(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
