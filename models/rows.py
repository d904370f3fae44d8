"""The rows of a pass as a tree: which one each follows, and whom it sees. Plain numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ghostdraft.models.types import IntArray

Mask = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


def checked_parents(count: int, parents: Sequence[int] | None) -> IntArray:
    """Those of a line where none are given. Raises ValueError."""
    line = np.arange(-1, count - 1, dtype=np.int32)
    if parents is None:
        return line
    given = np.asarray(parents, np.int32)
    if len(given) != count or (given < -1).any() or (given > line).any():
        raise ValueError("parents must be one for each row, and each an earlier row or -1")
    return given


def check_path(rows: Sequence[int], parents: Sequence[int] | IntArray) -> None:
    """Raises ValueError where they lead not from the root downwards."""
    for row, before in zip(rows, (-1, *rows), strict=False):
        if not 0 <= row < len(parents) or parents[row] != before:
            raise ValueError(f"rows {list(rows)} are no path from the root of the last pass")


def check_room(count: int, length: int, max_rows: int, context: int) -> None:
    """Raises ValueError where so many rows do not fit behind the kept ones."""
    if not 0 < count <= max_rows:
        raise ValueError(f"{count} rows in one pass, where 1 to {max_rows} fit")
    if length + count > context:
        raise ValueError(f"{count} rows behind {length} tokens exceed the context of {context}")


def ancestry(parents: IntArray) -> Mask:
    """[R, R] which rows each row follows, itself included."""
    sees = np.eye(len(parents), dtype=bool)
    for row, parent in enumerate(parents):
        if parent >= 0:
            sees[row] |= sees[parent]
    return sees


def visible(parents: IntArray, length: int) -> Mask:
    """[R, length + R] what each row sees: all kept ones and those that it follows."""
    return np.pad(ancestry(parents), ((0, 0), (length, 0)), constant_values=True)
