"""llama.cpp in a process of its own, as the bench of passes drives it: see `llama_worker` for what it can be asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from ghostdraft.benchmarks.json_lines import PeerProcess

COMMAND = (sys.executable, "-P", "-m", "ghostdraft.benchmarks.llama_worker")
ABSENT = "llama.cpp does not run in this Python. Install its bindings: python -m pip install 'ghostdraft[bench]'"


class Llama(PeerProcess):
    """`variants` names the files and settings that are loaded: a GGUF file and its Q8_0, each with and without flash
    attention. The library is llama-cpp-python's, or the one that `environment` names. Raises PeerFailed."""

    def __init__(
        self,
        gguf: Path,
        requantised: Path,
        context: int,
        threads: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(COMMAND, ABSENT, environment)
        self._requantise(gguf, requantised, threads)
        self.variants: list[str] = []
        for kind, path in (("GGUF", gguf), ("Q8_0", requantised)):
            for flash in (False, True):
                name = variant(kind, flash)
                self.ask("load", name=name, path=str(path), context=context, threads=threads, flash=flash)
                self.variants.append(name)

    def _requantise(self, gguf: Path, target: Path, threads: int) -> None:
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(target.name + ".part")
        self.ask("requantize", path=str(gguf), out=str(unfinished), threads=threads)
        unfinished.replace(target)


def variant(kind: str, flash: bool) -> str:
    """Of a file: "GGUF" or "Q8_0", and whether with flash attention."""
    return f"{kind}, flash" if flash else kind
