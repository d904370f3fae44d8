"""The replay of typing with ghostdraft and with llama.cpp as the engine of the same server, hole by hole in turns.

    python -m ghostdraft.benchmarks.replay_peers --model tiny

Needs llama-cpp-python, best built from source (CMAKE_ARGS=-DGGML_NATIVE=ON), in this Python. Of the model's GGUF file
and its Q8_0, with and without flash attention, the fastest stands for llama.cpp: plain, with our n-gram drafts, and
for models that fill in with prompts as llama.vim sends them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from ghostdraft.benchmarks import replay_table
from ghostdraft.benchmarks.decode_table import listed_cursors
from ghostdraft.benchmarks.json_lines import PeerFailed
from ghostdraft.benchmarks.llama_model import MAX_ROWS, LlamaModel
from ghostdraft.benchmarks.llama_peer import Llama
from ghostdraft.benchmarks.lsp_client import ServerEnded
from ghostdraft.benchmarks.passes import code, files
from ghostdraft.benchmarks.replay_llama_server import THREADS
from ghostdraft.benchmarks.replay_table import Contender
from ghostdraft.benchmarks.report import deliver
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.store import Store
from ghostdraft.models.tokenizer import load as load_tokenizer
from ghostdraft.models.types import ModelError

LLAMA = (sys.executable, "-P", "-m", "ghostdraft.benchmarks.replay_llama_server")
STEPS = 12  # tokens of an answer, about

Variant = tuple[Path, bool]  # the file, and whether with flash attention


def contenders(checkpoint: Checkpoint, variant: Variant) -> Iterator[Contender]:
    gguf, flash = variant
    command = (*LLAMA, str(gguf), str(int(flash)))
    yield Contender("ghostdraft, ngram", "ngram")
    yield Contender("llama.cpp", "none", (*command, "ours"))
    yield Contender("llama.cpp, ngram", "ngram", (*command, "ours"))
    if checkpoint.spec.fim:
        yield Contender("llama.cpp as llama.vim asks", "none", (*command, "llama.vim"))


def _seconds(checkpoint: Checkpoint, variant: Variant) -> float:
    """Of a prompt and an answer, once the memory is warm."""
    model = LlamaModel(variant[0], checkpoint.spec.shape, 2048, THREADS, variant[1])
    token_ids = code(load_tokenizer(checkpoint.tokenizer_path), 9 * MAX_ROWS)
    model.forward(token_ids[:MAX_ROWS])
    started = time.perf_counter()
    for first in range(0, len(token_ids) - MAX_ROWS, MAX_ROWS):
        model.forward(token_ids[first : first + MAX_ROWS])
        model.keep(range(MAX_ROWS))
    for token in token_ids[:STEPS]:
        model.forward([token], [0])
        model.keep([0])
    seconds = time.perf_counter() - started
    model.close()
    return seconds


def main(
    model: Annotated[str, typer.Option(help="A model that came as one GGUF file.")] = "tiny",
    cursors: Annotated[int, typer.Option(min=1, help="How many holes, from the start of the list.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the pauses between keys.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Type into ghostdraft and into llama.cpp, and see how soon ghost text comes."""
    deliver(partial(_rows, model, cursors, seed), replay_table.show, as_json, ModelError, PeerFailed, ServerEnded)


def _rows(model: str, cursors: int, seed: int) -> list[dict[str, object]]:
    checkpoint = Store().find(model)
    variant = min(_variants(checkpoint), key=partial(_seconds, checkpoint))
    places, digest = listed_cursors(cursors)
    scripts = replay_table.scripts(places, seed)
    about = {"seed": seed, "holes_sha256": digest, "peer": f"{variant[0].name}{', flash' if variant[1] else ''}"}
    return replay_table.rows(model, list(contenders(checkpoint, variant)), places, scripts, about)


def _variants(checkpoint: Checkpoint) -> list[Variant]:
    gguf, requantised = files(checkpoint.name)
    with Llama(gguf, requantised, 2048, THREADS):  # makes it once
        pass
    return list(product((gguf, requantised), (False, True)))


if __name__ == "__main__":
    typer.run(main)
