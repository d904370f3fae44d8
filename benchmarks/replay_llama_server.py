"""Our language server with llama.cpp as its engine, for the replay of typing: `python -P -m
ghostdraft.benchmarks.replay_llama_server GGUF FLASH PROMPT NOTES` serves on standard input and output.

FLASH is 0 or 1. PROMPT is "ours", the same prompts as our engine has, or "llama.vim": 256 lines before the cursor, then
64 lines behind it, all anew with each key. NOTES: see `replay_server`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from ghostdraft.benchmarks.llama_model import MAX_ROWS, LlamaModel
from ghostdraft.benchmarks.replay_server import NotingEngine
from ghostdraft.completion.context import DEFAULT_WINDOW, Window
from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.engine import Engine
from ghostdraft.completion.types import Budget, Cancel, Completion, Snapshot
from ghostdraft.drafting.making import make
from ghostdraft.drafting.measuring import measure_once
from ghostdraft.lsp_server.serving import serve_stdio
from ghostdraft.lsp_server.texts import Texts
from ghostdraft.models import tokenizer
from ghostdraft.models.cost_file import NAME as COSTS
from ghostdraft.models.cost_file import CostFile
from ghostdraft.models.load import Loaded
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.store import Store
from ghostdraft.models.types import FimOrder, ModelSpec

CONTEXT = 8192  # tokens
THREADS = 2
LINES_BEFORE, LINES_BEHIND = 256, 64
ALL = Window(prefix=1_000_000, suffix=1_000_000)


class Plain(Engine):
    """An engine that does nothing unasked."""

    def read_ahead(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> None:
        """Not its way."""


class NearLines(Plain):
    """An engine that sees only the lines near the cursor."""

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:
        return super().complete(near_lines(snapshot), budget, cancel)


def near_lines(snapshot: Snapshot) -> Snapshot:
    before = snapshot.text[: snapshot.cursor].split("\n")[-LINES_BEFORE:]
    behind = snapshot.text[snapshot.cursor :].split("\n")[:LINES_BEHIND]
    prefix = "\n".join(before)
    return replace(snapshot, text=prefix + "\n".join(behind), cursor=len(prefix), edits=None)


def prefix_first(spec: ModelSpec) -> ModelSpec:
    return replace(spec, fim=tuple(template for template in spec.fim if template.order == FimOrder.PREFIX_FIRST))


def engine(texts: Texts, model: str, drafter: str, gguf: Path, flash: bool, prompt: str) -> Engine:
    """Raises ModelError; RuntimeError where llama.cpp cannot load the file."""
    checkpoint = Store().find(model)
    spec = prefix_first(checkpoint.spec) if prompt == "llama.vim" else checkpoint.spec
    context = min(CONTEXT, spec.shape.context)
    llama = LlamaModel(gguf, spec.shape, context, THREADS, flash)
    costs = CostFile(checkpoint.folder / COSTS, f"llama.cpp, {gguf.name}, {'flash' if flash else 'plain'}")
    measure_once(llama, costs)
    loaded = Loaded(spec, tokenizer.load(checkpoint.tokenizer_path), llama, "llama.cpp", costs)
    proposer = make(drafter, loaded, texts.datastore())
    kind, window = (NearLines, ALL) if prompt == "llama.vim" else (Plain, DEFAULT_WINDOW)
    made = kind(loaded, proposer, Sampling.GREEDY, window)
    # always as many rows in a pass: it is not interrupted anyway
    made.decoder = Decoder(llama, proposer, Sampling.GREEDY, made.decoder.costs, least_rows=MAX_ROWS)
    return made


def main() -> None:
    gguf, flash, prompt, notes_path = sys.argv[1:]
    with Path(notes_path).open("a", encoding="utf-8") as notes:

        def load(texts: Texts, model: str, drafter: str, _context: int) -> NotingEngine:
            return NotingEngine(engine(texts, model, drafter, Path(gguf), flash == "1", prompt), notes)

        serve_stdio(load=load)


if __name__ == "__main__":
    main()
