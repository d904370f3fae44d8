"""Holes in the user's own files, by the same rules as those of the list. Knows nothing of models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path

from ghostdraft.benchmarks.holes import LANGUAGES, Block, Cursor, cut, find_blocks
from ghostdraft.completion.syntax import language_of
from ghostdraft.models import plain_files


class NoHoles(Exception):
    """Says which file cannot be used, and why."""


def cursors(paths: Iterable[Path], count: int) -> list[Cursor]:
    """At most `count` cursors; the files take turns, the holes of each in an order that does not depend on its text.

    Raises NoHoles.
    """
    turns = chain.from_iterable(zip_longest(*map(_of_file, paths)))
    found = list(islice((cursor for cursor in turns if cursor is not None), count))
    if not found:
        raise NoHoles("None of the files has a block of 10 to 60 lines that could be cut out.")
    return found


def digest(found: Iterable[Cursor]) -> str:
    """sha256 of the texts and where the holes stand in them."""
    whole = hashlib.sha256()
    for cursor in found:
        whole.update(f"{cursor.language}\0{cursor.offset}\0{cursor.text}\0".encode())
    return whole.hexdigest()


def _of_file(path: Path) -> Iterator[Cursor]:
    language, text = _language(path), _read(path)
    blocks = sorted(find_blocks(text, language), key=_order)
    return (cut(f"{path}:{block.line}", language, text, block) for block in blocks)


def _order(block: Block) -> str:
    return hashlib.sha256(str(block.line).encode()).hexdigest()


def _language(path: Path) -> str:
    language = language_of(path.name)
    if language not in LANGUAGES:
        raise NoHoles(f"{path} is in none of the languages that have holes: {', '.join(LANGUAGES)}.")
    return language


def _read(path: Path) -> str:
    try:
        plain_files.check(path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise NoHoles(f"{path} cannot be read: {error.strerror}. Give files with source text.") from error
    except UnicodeDecodeError as error:
        raise NoHoles(f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8, or leave it out.") from error
