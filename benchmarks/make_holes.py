"""Chooses the holes of the bench: `python -m ghostdraft.benchmarks.make_holes` writes holes.json beside packages.txt.

The same packages and seed give the same list: candidates are ordered by a hash of where they stand, never by what is
in them. Left out: tests, generated and minified files, tables of numbers, bodies that mostly stand elsewhere in the
same file (a drafter could copy them), and bodies like one already chosen. How a model or drafter does on a hole plays
no part.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from pathlib import Path

from ghostdraft.benchmarks.corpus import Corpus, read_packages
from ghostdraft.benchmarks.holes import LIST_FILE, Block, Hole, Package, find_blocks, shingles

SEED = "ghostdraft-holes-1"
QUOTA = {"python": 45, "typescript": 32, "go": 32, "rust": 32, "c": 32, "java": 32}
SUFFIXES = {"python": ".py", "typescript": ".ts", "go": ".go", "rust": ".rs", "c": ".c", "java": ".java"}
MOST_REPEATED = 0.3  # share of a body that may stand elsewhere in its file
MOST_ALIKE = 0.2  # share of a body that may stand in a hole already chosen
EARLIEST_LINE = 15
FILE_BYTES = range(2_000, 120_000)
LONGEST_LINE = 300

NOT_WANTED_PATH = re.compile(
    r"(^|[/_.-])(tests?|testing|testdata|__tests__|spec|examples?|demos?|docs?|bench(es|marks?)?|generated|gen|proto|"
    r"fixtures|snapshots|locales?|pb|min|_vendor)([/_.-]|$)|\.d\.ts$|_test\.go$|(^|/)z[a-z]*_[^/]*\.go$",
    re.IGNORECASE,
)
NOT_WANTED_TEXT = re.compile(r"generated (by|from|with|code)|auto-?generated|do not (edit|modify)", re.IGNORECASE)
RUST_TESTS = "#[cfg(test)]"  # what stands behind it in a file is tests


@dataclass(frozen=True, slots=True)
class Candidate:
    hole: Hole
    shingles: frozenset[tuple[str, ...]]

    @property
    def order(self) -> str:
        hole = self.hole
        place = f"{SEED}:{hole.package.name}:{hole.path}:{hole.block.line}"
        return hashlib.sha256(place.encode()).hexdigest()


def main() -> None:
    here = Path(__file__).parent
    pinned = read_packages()
    corpus = Corpus.open()
    corpus.fetch(package for _, package in pinned)
    chosen = {language: _choose(language, _of(pinned, language), corpus) for language in QUOTA}
    (here / LIST_FILE).write_text(_as_json(_balanced(chosen)), encoding="utf-8")


def _of(pinned: Iterable[tuple[str, Package]], language: str) -> list[Package]:
    return [package for of, package in pinned if of == language]


def _choose(language: str, packages: list[Package], corpus: Corpus) -> list[Hole]:
    """Packages take turns, each giving its next candidate that is unlike those chosen and from a new file."""
    queues = [sorted(_candidates(package, language, corpus), key=lambda c: c.order) for package in packages]
    turns = (candidate for candidate in chain.from_iterable(zip_longest(*map(_one_per_file, queues))) if candidate)
    chosen: list[Candidate] = []
    for candidate in turns:
        if len(chosen) < QUOTA[language] and not _alike(candidate, chosen):
            chosen.append(candidate)
    return [candidate.hole for candidate in chosen]


def _candidates(package: Package, language: str, corpus: Corpus) -> Iterator[Candidate]:
    for path, data in corpus.members(package, lambda path: _wanted_path(path, language)):
        text = _wanted_text(data)
        tests = text.count("\n", 0, text.find(RUST_TESTS)) if RUST_TESTS in text else len(text)
        for block in find_blocks(text, language) if text else ():
            if EARLIEST_LINE <= block.line <= tests and block.repeated <= MOST_REPEATED:
                yield Candidate(Hole(package, path, language, block), _body(text, block))


def _wanted_path(path: str, language: str) -> bool:
    inside = path.partition("/")[2] or path
    return path.endswith(SUFFIXES[language]) and not NOT_WANTED_PATH.search(inside)


def _wanted_text(data: bytes) -> str:
    """The file's text, or nothing where it was not written by hand."""
    if len(data) not in FILE_BYTES or b"\r" in data or NOT_WANTED_TEXT.search(data[:3000].decode(errors="ignore")):
        return ""
    text = data.decode(errors="replace")
    return text if "\ufffd" not in text and max(map(len, text.split("\n"))) <= LONGEST_LINE else ""


def _body(text: str, block: Block) -> frozenset[tuple[str, ...]]:
    return frozenset(shingles(text.split("\n")[block.line - 1 : block.line - 1 + block.lines]))


def _one_per_file(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.hole.path not in seen:
            seen.add(candidate.hole.path)
            yield candidate


def _alike(candidate: Candidate, chosen: Iterable[Candidate]) -> bool:
    return any(len(candidate.shingles & other.shingles) > MOST_ALIKE * len(candidate.shingles) for other in chosen)


def _balanced(chosen: dict[str, list[Hole]]) -> list[Hole]:
    """One list in which every beginning holds each language's share."""
    ranked = [
        ((i + 0.5) / len(holes), language, hole) for language, holes in chosen.items() for i, hole in enumerate(holes)
    ]
    return [hole for _, _, hole in sorted(ranked, key=lambda entry: entry[:2])]


def _as_json(holes: list[Hole]) -> str:
    packages = {hole.package.name: asdict(hole.package) for hole in holes}
    rows = [
        {"package": hole.package.name, "path": hole.path, "language": hole.language, **asdict(hole.block)}
        for hole in holes
    ]
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    table = json.dumps(dict(sorted(packages.items())), indent=1)
    return f'{{"seed": {json.dumps(SEED)},\n"packages": {table},\n"holes": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    main()
