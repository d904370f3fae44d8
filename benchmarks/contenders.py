"""Who decodes at the holes beside each other: our engine, llama.cpp, xllamacpp, transformers; `vllm_peer` has vLLM.

Each reads a prompt, which is not timed, and then writes so many greedy tokens behind it, never stopping by itself.
Knows nothing of rounds and tables.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ghostdraft.benchmarks.decode import Bench, Task
from ghostdraft.benchmarks.json_lines import PeerProcess
from ghostdraft.benchmarks.llama_server import Command, LlamaServer, Serving
from ghostdraft.drafting.types import Drafter

TRANSFORMERS = (sys.executable, "-P", "-m", "ghostdraft.benchmarks.transformers_worker")
XLLAMACPP = (sys.executable, "-P", "-m", "ghostdraft.benchmarks.xllamacpp_server")
NO_TRANSFORMERS = "transformers, and vLLM with it, are left out: python -m pip install 'ghostdraft[bench]'"
NO_XLLAMACPP = "xllamacpp is left out: python -m pip install 'ghostdraft[bench]'"


class Contender(Protocol):
    """`name` is the row of the table, `variant` one of several among which the fastest stands for the row."""

    @property
    def name(self) -> str: ...
    @property
    def variant(self) -> str: ...

    def read(self, task: Task) -> None:
        """Raises PeerFailed, as `write` does."""

    def write(self, task: Task) -> float:
        """Seconds for the task's tokens behind its prompt, which was the last that was read."""


@dataclass(frozen=True, slots=True)
class Ours:
    """The engine behind the bench of decoding, which has read the prompt already."""

    bench: Bench
    drafter: Drafter
    variant: str = "int8"

    @property
    def name(self) -> str:
        return "ghostdraft, " + {"none": "plain"}.get(self.drafter.name, self.drafter.name)

    def read(self, task: Task) -> None:
        """Nothing to do."""

    def write(self, _task: Task) -> float:
        return self.bench.run(self.drafter).seconds


@dataclass(frozen=True, slots=True)
class Served:
    """A server of llama.cpp's kind. Each text gets a fresh process, which cannot have seen it, and the state of the
    prompt from the disk, where another mode of what serves the same may have left it."""

    name: str
    variant: str
    command: Command
    serving: Serving

    def read(self, task: Task) -> None:
        if self._state(task).exists():
            return
        for old in self._state(task).parent.glob("*.state"):
            old.unlink()
        with LlamaServer(self.command, self.serving) as server:
            server.read(task.prompt, self._state(task).name)

    def write(self, task: Task) -> float:
        with LlamaServer(self.command, self.serving) as server:
            server.restore(self._state(task).name)
            return server.write(task.prompt, task.tokens)

    def _state(self, task: Task) -> Path:
        """Where the prompt's state lies, or will lie."""
        prompt = np.array(task.prompt, np.int32).tobytes()
        return self.serving.states / f"{hashlib.sha256(prompt).hexdigest()}.state"


@dataclass(frozen=True, slots=True)
class Generated:
    """One mode of transformers; several share a process, in which the first of them reads the prompt."""

    mode: str
    variant: str
    process: PeerProcess
    reads: bool

    @property
    def name(self) -> str:
        return f"transformers, {self.mode}"

    def read(self, task: Task) -> None:
        if self.reads:
            self.process.ask("read", prompt=task.prompt)

    def write(self, task: Task) -> float:
        return float(self.process.ask("write", mode=self.mode, tokens=task.tokens))


def transformers(process: PeerProcess, gguf: Path, draft: Path | None, threads: int) -> Iterator[Contender]:
    """Its modes; "assisted" where there is a smaller model. Raises PeerFailed."""
    variant = process.ask("load", path=str(gguf), threads=threads, assistant=draft and str(draft))
    for mode in ("plain", "prompt lookup", *(["assisted"] if draft else [])):
        yield Generated(mode, variant, process, reads=mode == "plain")


def xllamacpp(serving: Serving, port: int) -> Sequence[str]:
    """The command that serves with it."""
    about = (str(serving.file), str(int(serving.flash)), str(serving.context), str(serving.threads))
    return (*XLLAMACPP, *about, str(serving.states), str(port))


def installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) for package in packages)
