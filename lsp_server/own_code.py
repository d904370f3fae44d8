"""The user's own code as tokens to train on: files that may be read, some of them held out.

Which files are held out follows from their paths alone, so that it is the same in each training. Knows nothing of
networks.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ghostdraft.completion.syntax import language_of
from ghostdraft.completion.workspace import PolicyOf, read, walk
from ghostdraft.drafting.train.sequences import Documents
from ghostdraft.models.types import IntArray, Tokenizer

HELD_OUT = 0.1  # of the files


@dataclass(frozen=True, slots=True)
class Part:
    """Documents by language, of so many files."""

    documents: dict[str, Documents]
    files: int

    @property
    def tokens(self) -> int:
        return sum(len(one.tokens) for one in self.documents.values())


@dataclass(frozen=True, slots=True)
class OwnCode:
    train: Part
    heldout: Part


def collect(folder: Path, policy_of: PolicyOf, tokenizer: Tokenizer) -> OwnCode:
    parts: dict[bool, dict[str, list[IntArray]]] = {True: defaultdict(list), False: defaultdict(list)}
    root = folder.resolve()
    for found in walk(str(root), policy_of):
        if found is not None and (text := read(found)):
            place = Path(found.path).relative_to(root).as_posix()
            token_ids = np.array(tokenizer.encode(text.decode()), np.int32)
            parts[is_held_out(place)][language_of(found.path)].append(token_ids)
    return OwnCode(_part(parts[False]), _part(parts[True]))


def is_held_out(place: str) -> bool:
    """`place`: a path in the folder, with forward slashes."""
    return int(hashlib.sha256(place.encode()).hexdigest()[:8], 16) < HELD_OUT * 2**32


def _part(languages: dict[str, list[IntArray]]) -> Part:
    documents = {language: _documents(files) for language, files in languages.items()}
    return Part(documents, sum(map(len, languages.values())))


def _documents(files: list[IntArray]) -> Documents:
    offsets = np.cumsum([0, *map(len, files)], dtype=np.int64)
    return Documents(np.concatenate(files), offsets)
