"""A server of llama.cpp: it reads a prompt once and keeps it on disk, and tells how long it wrote.

Knows nothing of what is compared. https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghostdraft.benchmarks.http_peer import HttpPeer, free_port
from ghostdraft.benchmarks.json_lines import PeerFailed

MODES: dict[str, Sequence[str]] = {
    "plain": (),
    "ngram-simple": ("--spec-type", "ngram-simple"),
    "ngram-map-k": ("--spec-type", "ngram-map-k"),
    "ngram-map-k4v": ("--spec-type", "ngram-map-k4v"),
    "ngram-mod": ("--spec-type", "ngram-mod"),
    "ngram-cache": ("--spec-type", "ngram-cache"),
    "ngram-simple 3:8": (  # drafts 8 tokens after 3 that stood there before, where the mode itself waits for 12
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "8",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served: a GGUF file, with flash attention or without; `states` is the folder for prompts that were
    read."""

    file: Path
    flash: bool
    context: int
    threads: int
    states: Path


Command = Callable[[Serving, int], Sequence[str]]  # that serves on a port


def native(program: Path, mode: str) -> Command:
    """llama-server in one of MODES."""
    return lambda serving, port: (
        str(program), "--model", str(serving.file), "--ctx-size", str(serving.context), "--parallel", "1",
        "--threads", str(serving.threads), "--threads-batch", str(serving.threads),
        "--flash-attn", "on" if serving.flash else "off", "--cache-ram", "0", "--slot-save-path", str(serving.states),
        "--host", "127.0.0.1", "--port", str(port), "--offline", "--no-ui", *MODES[mode],
    )  # fmt: skip


class LlamaServer(HttpPeer):
    """What asks it raises PeerFailed."""

    def __init__(self, command: Command, serving: Serving) -> None:
        port = free_port()
        super().__init__(command(serving, port), port)

    def read(self, prompt: Sequence[int], name: str) -> None:
        """Reads a prompt and keeps it on disk under a file's name."""
        self._complete(prompt, 0)
        self.ask("/slots/0?action=save", {"filename": name})

    def restore(self, name: str) -> None:
        self.ask("/slots/0?action=restore", {"filename": name})

    def write(self, prompt: Sequence[int], tokens: int) -> float:
        """Seconds for so many greedy tokens, by its own clock, with the pass over the prompt's last token."""
        timings = self._complete(prompt, tokens)["timings"]
        if timings["predicted_n"] < tokens or timings["prompt_n"] > 1:
            raise PeerFailed(
                f"llama.cpp read {timings['prompt_n']} tokens of a prompt that it had read, and wrote "
                f"{timings['predicted_n']} where {tokens} were asked for."
            )
        return float(timings["prompt_ms"] + timings["predicted_ms"]) / 1e3

    def _complete(self, prompt: Sequence[int], tokens: int) -> Any:
        wish = {"prompt": list(prompt), "n_predict": tokens, "temperature": 0, "ignore_eos": True}
        return self.ask("/completion", wish)
