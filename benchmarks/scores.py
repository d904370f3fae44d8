"""Teacher-forced scores: what a model says at each position of a given text. Needs numpy alone; knows no engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Of n positions."""

    best: Ints  # [n], the likeliest token
    log_prob: Floats  # [n], natural logarithm, of the token that stands there

    def save(self, path: Path) -> None:
        """Atomically; makes the folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"part-{path.name}")
        np.savez(unfinished, best=self.best, log_prob=self.log_prob)
        unfinished.replace(path)

    @staticmethod
    def load(path: Path) -> Scores:
        with np.load(path, allow_pickle=False) as file:
            return Scores(file["best"], file["log_prob"])


def score(logits: npt.NDArray[np.float32], next_tokens: Ints) -> Scores:
    """[n, vocab] logits, and the n tokens that follow."""
    top = logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(-1, dtype=np.float64))
    chosen = np.take_along_axis(logits, next_tokens[:, None].astype(np.int64), -1) - top
    return Scores(logits.argmax(-1).astype(np.int32), chosen[:, 0] - log_sum)


def join(parts: Sequence[Scores]) -> Scores:
    return Scores(np.concatenate([p.best for p in parts]), np.concatenate([p.log_prob for p in parts]))
