"""The rows of a pass as a tree: which one each follows, and whom it sees. Plain numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ghostdraft.models.types import IntArray


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
    """Raises ValueError unless `rows` are a path from the root of a pass; `parents` are those of its rows."""
    for row, before in zip(rows, (-1, *rows), strict=False):
        if not 0 <= row < len(parents) or parents[row] != before:
            raise ValueError(f"rows {list(rows)} are no path from the root of the last pass")


def ancestry(parents: IntArray) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """[R, R] which rows each row follows, itself included."""
    sees = np.eye(len(parents), dtype=bool)
    for row, parent in enumerate(parents):
        if parent >= 0:
            sees[row] |= sees[parent]
    return sees
