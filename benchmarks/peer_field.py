"""Which peers take part in decoding at the holes on this machine: their files, their settings, what runs them.

Knows nothing of rounds and tables.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ghostdraft.benchmarks import contenders, llama_server, vllm_peer
from ghostdraft.benchmarks.contenders import Contender, Served
from ghostdraft.benchmarks.json_lines import PeerProcess
from ghostdraft.benchmarks.llama_build import Build
from ghostdraft.benchmarks.llama_peer import Llama, variant
from ghostdraft.benchmarks.llama_server import MODES, Serving
from ghostdraft.benchmarks.passes import BURST, CONTEXT, THREADS, code, files
from ghostdraft.models.load import Loaded
from ghostdraft.models.recommend import fitting_drafts
from ghostdraft.models.registry import MODELS
from ghostdraft.models.store import Store, default_home

Entry = tuple[Sequence[Contender], str]  # of one peer; and where it is left out, a sentence


@dataclass(frozen=True, slots=True)
class Field:
    """`variants` are the GGUF file and its Q8_0 by their names, and whether with flash attention: where that makes the
    one-token step faster. What is started ends with `stack`, and `states` goes with it. Raises PeerFailed."""

    loaded: Loaded
    build: Build
    variants: dict[str, tuple[Path, bool]]
    states: Path
    stack: ExitStack

    @staticmethod
    def open(loaded: Loaded, build: Build, stack: ExitStack) -> Field:
        states = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return Field(loaded, build, _variants(loaded, build), states, stack)

    def entries(self, vllm_python: Path | None) -> Iterator[Entry]:
        yield self._llama_cpp(), ""
        yield self._xllamacpp()
        if not contenders.installed("torch", "transformers", "accelerate"):
            yield [], contenders.NO_TRANSFORMERS
            return
        process = self.stack.enter_context(PeerProcess(contenders.TRANSFORMERS, contenders.NO_TRANSFORMERS))
        yield self._transformers(process)
        yield self._vllm(process, vllm_python)

    def plain(self) -> Served:
        """llama.cpp with the GGUF file, one token at a time."""
        return self._llama_cpp()[0]

    def _llama_cpp(self) -> list[Served]:
        return [
            Served(f"llama.cpp, {mode}", kind, llama_server.native(self.build.server, mode), serving)
            for mode in MODES
            for kind, serving in self._servings("llama.cpp")
        ]

    def _xllamacpp(self) -> Entry:
        if not contenders.installed("xllamacpp"):
            return [], contenders.NO_XLLAMACPP
        found = [
            Served("xllamacpp, plain", kind, contenders.xllamacpp, serving)
            for kind, serving in self._servings("xllamacpp")
        ]
        return found, ""

    def _transformers(self, process: PeerProcess) -> Entry:
        name, draft = self.loaded.spec.name, _draft(self.loaded.spec.name)
        found = list(contenders.transformers(process, files(name)[0], draft, THREADS))
        return found, "" if draft else f"transformers, assisted is left out: no smaller model here can assist {name}."

    def _vllm(self, process: PeerProcess, python: Path | None) -> Entry:
        if python is None:
            return [], vllm_peer.ABSENT
        name = self.loaded.spec.name
        folder = vllm_peer.exported(process, Store().find(name), default_home() / "bench" / f"{name}-bfloat16")
        return list(vllm_peer.servers(python, folder, CONTEXT, THREADS, self.stack)), ""

    def _servings(self, program: str) -> Iterator[tuple[str, Serving]]:
        """Each with a folder for its states, which no other file, setting or program could read."""
        for kind, (path, flash) in self.variants.items():
            folder = self.states / program / kind
            folder.mkdir(parents=True, exist_ok=True)
            yield kind, Serving(path, flash, CONTEXT, THREADS, folder)


def _variants(loaded: Loaded, build: Build) -> dict[str, tuple[Path, bool]]:
    gguf, requantised = files(loaded.spec.name)
    with Llama(gguf, requantised, CONTEXT, THREADS, build.environment) as llama:
        flashes = {kind: _flash_pays(llama, kind, code(loaded.tokenizer)) for kind in ("GGUF", "Q8_0")}
    paths = {"GGUF": gguf, "Q8_0": requantised}
    return {variant(kind, flash): (paths[kind], flash) for kind, flash in flashes.items()}


def _flash_pays(llama: Llama, kind: str, prompt: Sequence[int]) -> bool:
    plain, with_flash = (_step(llama, variant(kind, flash), prompt) for flash in (False, True))
    return with_flash < plain


def _step(llama: Llama, name: str, prompt: Sequence[int]) -> float:
    """Milliseconds of one token behind the prompt."""
    llama.ask("prefill", name=name, tokens=prompt)
    times: list[float] = llama.ask("step", name=name, tokens=prompt[:1], repeat=BURST)
    return min(times)


def _draft(name: str) -> Path | None:
    """The file of a smaller model of its family that is here."""
    known = fitting_drafts(MODELS[name]) if name in MODELS else []
    here = [draft.name for draft in known if Store().has(draft.name)]
    return files(here[0])[0] if here else None
