"""What the target says of training sequences, read once and kept in files: its hidden states, from which its final norm
and head tell the chances of every token.

Goes on where it was left; any LanguageModel that tells hidden states can teach. Knows nothing of networks. A folder is
for one target and one choice of sequences: only their sizes are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ghostdraft.models.types import FloatArray, IntArray, LanguageModel, Pass

Progress = Callable[[int, int], None]  # sequences done, in all
Halted = Callable[[], bool]


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


@dataclass(frozen=True, slots=True)
class Exam:
    """Lessons to ask about, and `best` [count, length]: of all tokens the one that the target holds for the likeliest
    behind each."""

    lessons: Lessons
    best: IntArray


def teach(
    model: LanguageModel,
    lessons: Lessons,
    sequence: Callable[[int], IntArray],
    progress: Progress,
    halted: Halted = lambda: False,
) -> None:
    """Reads what is missing, sequence by sequence; stops between two of them where it is halted."""
    for number in range(lessons.done, lessons.count):
        if halted():
            return
        token_ids = sequence(number)
        lessons.keep(number, token_ids, read(model, token_ids))
        progress(number + 1, lessons.count)


def read(model: LanguageModel, token_ids: IntArray) -> FloatArray:
    """[n, hidden]: the model's states of a sequence by itself. Raises ValueError where it tells none."""
    return np.concatenate([_states(one) for one in _passes(model, token_ids, logits=False)])


def best_tokens(model: LanguageModel, token_ids: IntArray) -> IntArray:
    """[n]: what the model holds for the likeliest behind each token of a sequence by itself."""
    best = [one.logits.argmax(axis=1) for one in _passes(model, token_ids, logits=True)]
    return np.concatenate(best).astype(np.int32)


def _passes(model: LanguageModel, token_ids: IntArray, logits: bool) -> Iterator[Pass]:
    model.truncate(0)
    for start in range(0, len(token_ids), model.max_rows):
        chunk = token_ids[start : start + model.max_rows]
        yield model.forward(chunk, range(len(chunk)) if logits else ())
        model.keep(range(len(chunk)))


def _states(one: Pass) -> FloatArray:
    if one.hidden is None:
        raise ValueError("this model does not tell its hidden states")
    return one.hidden


def _is_shaped(path: Path, shape: tuple[int, ...]) -> bool:
    return path.exists() and np.lib.format.open_memmap(path, mode="r").shape == shape
