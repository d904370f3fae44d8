"""Copies of the model's KV cache for texts that it does not read now, so that a document which is come back to is still
known. Knows nothing of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.models.types import CacheState

MOST_BYTES = 96 << 20


@dataclass(frozen=True, slots=True)
class Saved:
    token_ids: tuple[int, ...]
    state: CacheState


class Caches:
    """Of at most `most_bytes`; the least recently saved gives way."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._saved: list[Saved] = []  # the latest last
        self._per_token = 0.0  # bytes of the last copy

    @property
    def nbytes(self) -> int:
        return sum(saved.state.nbytes for saved in self._saved)

    def make_room(self, tokens: int) -> bool:
        """Before a copy of so many tokens is made, so that it is not one too many for a moment; False: it is too large
        by itself, as far as earlier ones tell."""
        expected = self._per_token * tokens
        if expected > self._most_bytes:
            return False
        self._shrink(self._most_bytes - expected)
        return True

    def put(self, saved: Saved) -> None:
        self._per_token = saved.state.nbytes / max(len(saved.token_ids), 1)
        self._saved.append(saved)
        self._shrink(self._most_bytes)

    def _shrink(self, most_bytes: float) -> None:
        while self.nbytes > most_bytes:
            del self._saved[0]

    def take(self, prompt: Sequence[int], least: int) -> Saved | None:
        """The copy that shares most tokens with the start of `prompt`, if that is more than `least`; it is handed
        over."""
        shared = [common_prefix(saved.token_ids, prompt) for saved in self._saved]
        best = max(range(len(shared)), key=shared.__getitem__, default=None)
        return self._saved.pop(best) if best is not None and shared[best] > least else None

    def clear(self) -> None:
        self._saved.clear()
