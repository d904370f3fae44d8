"""vLLM, plain and with its n-gram drafts, as servers in its own Python: contenders in decoding at the holes.

It gets the weights in bfloat16, written once by transformers. Its times are those of the whole answer, at most BLOCK
tokens of the prompt included that its cache of prefixes leaves out.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghostdraft.benchmarks.decode import Task
from ghostdraft.benchmarks.http_peer import HttpPeer, free_port
from ghostdraft.benchmarks.json_lines import PeerFailed, PeerProcess
from ghostdraft.models.checkpoint import Checkpoint

BLOCK = 16  # tokens
DRAFTS = {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
ABSENT = "vLLM is left out: name a Python that has it by --vllm-python."
KEPT = {"VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}  # GiB; and no look at the hub


@dataclass(frozen=True, slots=True)
class Vllm:
    """A server that runs already."""

    name: str
    server: HttpPeer
    folder: Path
    variant: str = "bfloat16"

    def read(self, task: Task) -> None:
        self._complete(task, 1)

    def write(self, task: Task) -> float:
        start = time.perf_counter()
        written = self._complete(task, task.tokens)["usage"]["completion_tokens"]
        seconds = time.perf_counter() - start
        if written != task.tokens:
            raise PeerFailed(f"vLLM wrote {written} tokens where {task.tokens} were asked for.")
        return seconds

    def _complete(self, task: Task, tokens: int) -> Any:
        wish = {"model": str(self.folder), "prompt": list(task.prompt), "max_tokens": tokens}
        return self.server.ask("/v1/completions", {**wish, "temperature": 0, "ignore_eos": True})


def servers(python: Path, folder: Path, context: int, threads: int, stack: ExitStack) -> Iterator[Vllm]:
    """They end with `stack`. Raises PeerFailed."""
    modes: Mapping[str, list[str]] = {"plain": [], "ngram": ["--speculative-config", json.dumps(DRAFTS)]}
    for mode, options in modes.items():
        port = free_port()
        command = [
            str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", str(port),
            "--host", "127.0.0.1", "--dtype", "bfloat16", "--max-model-len", str(context), "--enforce-eager",
            "--block-size", str(BLOCK), *options,
        ]  # fmt: skip
        environment = {**KEPT, "OMP_NUM_THREADS": str(threads)}
        yield Vllm(f"vLLM, {mode}", stack.enter_context(HttpPeer(command, port, environment)), folder)


def exported(process: PeerProcess, checkpoint: Checkpoint, folder: Path) -> Path:
    """The folder, with the checkpoint as vLLM reads it; written where it is not there. Raises PeerFailed."""
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        process.ask("export", path=str(checkpoint.weights[0]), folder=str(unfinished))
        shutil.copy(checkpoint.tokenizer_path, unfinished)
        (unfinished / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        unfinished.replace(folder)
    return folder
