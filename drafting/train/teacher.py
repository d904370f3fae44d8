"""What the target says of training sequences, read once and kept in files: its hidden states, from which its final norm
and head tell the chances of every token.

Goes on where it was left; any LanguageModel that tells hidden states can teach. Knows nothing of networks. A folder is
for one target and one choice of sequences: only their sizes are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ghostdraft.models.types import FloatArray, IntArray, LanguageModel

Progress = Callable[[int, int], None]  # sequences done, in all


class Lessons:
    """`count` sequences of `length` tokens with the target's hidden states [count, length, hidden] behind each of them,
    in float16; `done` of them are there. Files of other sizes are begun anew."""

    def __init__(self, folder: Path, count: int, length: int, hidden: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / "tokens.npy", folder / "hidden.npy"
        shapes = (count, length), (count, length, hidden)
        if not all(map(_is_shaped, paths, shapes)):
            np.lib.format.open_memmap(paths[1], mode="w+", dtype=np.float16, shape=shapes[1])
            np.lib.format.open_memmap(paths[0], mode="w+", dtype=np.int32, shape=shapes[0])[:] = -1
        self._tokens, self._hidden = (np.lib.format.open_memmap(path, mode="r+") for path in paths)

    @property
    def done(self) -> int:
        """A sequence is there once its first token is not -1."""
        return int((self._tokens[:, 0] >= 0).sum())

    @property
    def count(self) -> int:
        return len(self._tokens)

    def keep(self, number: int, token_ids: IntArray, hidden: FloatArray) -> None:
        """Raises ValueError for states beyond what float16 holds."""
        if not np.abs(hidden).max() <= np.finfo(np.float16).max:
            raise ValueError("the model's hidden states are too large for float16")
        self._hidden[number] = hidden
        self._tokens[number] = token_ids

    def take(self, numbers: IntArray) -> tuple[IntArray, FloatArray]:
        """[n, length] tokens and [n, length, hidden] states, float32."""
        return self._tokens[numbers], self._hidden[numbers].astype(np.float32)


def teach(model: LanguageModel, lessons: Lessons, sequence: Callable[[int], IntArray], progress: Progress) -> None:
    """Reads what is missing, sequence by sequence."""
    for number in range(lessons.done, lessons.count):
        token_ids = sequence(number)
        lessons.keep(number, token_ids, read(model, token_ids))
        progress(number + 1, lessons.count)


def read(model: LanguageModel, token_ids: IntArray) -> FloatArray:
    """[n, hidden]: the model's states of a sequence by itself. Raises ValueError where it tells none."""
    model.truncate(0)
    states = []
    for start in range(0, len(token_ids), model.max_rows):
        chunk = token_ids[start : start + model.max_rows]
        hidden = model.forward(chunk).hidden
        if hidden is None:
            raise ValueError("this model does not tell its hidden states")
        states.append(hidden)
        model.keep(range(len(chunk)))
    return np.concatenate(states)


def _is_shaped(path: Path, shape: tuple[int, ...]) -> bool:
    return path.exists() and np.lib.format.open_memmap(path, mode="r").shape == shape
