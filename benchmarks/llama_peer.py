"""llama.cpp in a process of its own, as the bench of peers drives it: see `llama_worker` for what it can be asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ghostdraft.benchmarks import llama_worker

ABSENT = "llama.cpp does not run there. Install llama-cpp-python from source: CMAKE_ARGS=-DGGML_NATIVE=ON"


class PeerFailed(Exception):
    """llama.cpp said no, or is not there."""


class Llama:
    """`variants` names the files and settings that are loaded: a GGUF file and its Q8_0, each with and without flash
    attention. Raises PeerFailed."""

    def __init__(self, python: str, gguf: Path, requantised: Path, context: int, threads: int) -> None:
        self._process = subprocess.Popen(
            [python, "-P", llama_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._requantise(gguf, requantised, threads)
        self.variants: list[str] = []
        for kind, path in (("GGUF", gguf), ("Q8_0", requantised)):
            for flash in (False, True):
                name = f"{kind}, flash" if flash else kind
                self.ask("load", name=name, path=str(path), context=context, threads=threads, flash=flash)
                self.variants.append(name)

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, op: str, **arguments: Any) -> Any:
        """The result of one operation; times are in milliseconds."""
        request = json.dumps({"op": op, **arguments})
        try:
            _pipe(self._process.stdin).write(request + "\n")
            _pipe(self._process.stdin).flush()
        except BrokenPipeError:
            raise PeerFailed(ABSENT) from None
        answer = _pipe(self._process.stdout).readline()
        if not answer:
            raise PeerFailed(ABSENT)
        reply = json.loads(answer)
        if "error" in reply:
            raise PeerFailed(reply["error"])
        return reply["result"]

    def _requantise(self, gguf: Path, target: Path, threads: int) -> None:
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(target.name + ".part")
        self.ask("requantize", path=str(gguf), out=str(unfinished), threads=threads)
        unfinished.replace(target)


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise PeerFailed(ABSENT)
    return stream
