"""The corpus that draft models are trained on: `python -m ghostdraft.benchmarks.training_corpus --output FOLDER`.

Fetches the packages of training_packages.txt, picks the files that people write, drops what is there twice and every
file that shares fifty tokens with a package of the bench, and writes token ids. For each language and part ("train",
"heldout") there are two arrays: NAME.tokens.npy, all token ids in one row, and NAME.offsets.npy, where each document
begins, with the end of the last one behind. Documents have no token before or after them. The same packages give the
same corpus. Knows nothing of models but their tokenizer, and nothing of training.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ghostdraft.benchmarks.corpus import Corpus, read_packages
from ghostdraft.benchmarks.holes import Package
from ghostdraft.benchmarks.report import Bar, deliver, print_table
from ghostdraft.benchmarks.shingles import Seen, Shelf, shingles
from ghostdraft.benchmarks.training_files import is_test, language_of, read, without_notice
from ghostdraft.models import tokenizer
from ghostdraft.models.disk import disk_errors
from ghostdraft.models.store import Store
from ghostdraft.models.types import ModelError, Tokenizer

SEED = "ghostdraft-training-1"
LIST = "training_packages.txt"
LANGUAGE_BYTES = 25_000_000
PACKAGE_BYTES = 800_000  # of one language
MOST_TESTS = 0.15  # share of a language's bytes
MOST_ALIKE = 0.5  # share of a file that may stand in files already chosen
HELD_OUT = 0.02  # share of the files
Ints = NDArray[np.int32]
COLUMNS = ("language", "files", "tokens", "MB")


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a package that people write; `text` is without its licence's notice, `turn` is how many files of the
    package and language come before it."""

    package: Package
    path: str
    language: str
    text: str
    turn: int

    @property
    def part(self) -> str:
        return "heldout" if _chance(self.path) < HELD_OUT else "train"

    @property
    def order(self) -> tuple[int, str]:
        """Packages take turns, so that a language is full of many."""
        return self.turn, _order(self.package, self.path)


@dataclass(frozen=True, slots=True)
class Document:
    source: Source
    token_ids: Ints


def _order(package: Package, path: str) -> str:
    return hashlib.sha256(f"{SEED}:{package.name}:{path}".encode()).hexdigest()


def _chance(path: str) -> float:
    """Of a path, spread evenly over 0 to 1."""
    return int(hashlib.sha256(f"{SEED}:{path}".encode()).hexdigest()[:8], 16) / 2**32


def build(name: str, output: Path) -> dict[str, Any]:
    """Writes the corpus for a model in the store, and returns what it holds. Raises ModelError."""
    encoder, corpus, dropped = tokenizer.load(Store().find(name).tokenizer_path), Corpus.open(), Counter[str]()
    bench, packages = [package for _, package in read_packages()], [package for _, package in read_packages(LIST)]
    with Bar("packages") as bar:
        corpus.fetch([*bench, *packages], bar.show)
        shelf = Shelf(text for package in bench for text in bench_texts(corpus, package))
        sources = [source for package in watched(bar, packages) for source in package_sources(corpus, package, dropped)]
    kept = list(sieve(sources, shelf, dropped))
    with Bar("files") as bar, disk_errors(output):
        return write(output, name, encoded(encoder, kept, bar), packages, dropped)


def watched(bar: Bar, packages: Sequence[Package]) -> Iterator[Package]:
    for done, package in enumerate(packages):
        bar.show(done, len(packages), package.name)
        yield package


def bench_texts(corpus: Corpus, package: Package) -> Iterator[str]:
    """Everything that a drafter may be measured on, whatever it is."""
    for _, data in corpus.members(package, lambda path: language_of(path) is not None):
        yield without_notice(data.decode("utf-8-sig", "replace"))


def package_sources(corpus: Corpus, package: Package, dropped: Counter[str]) -> Iterator[Source]:
    """In the order of their hashes, until a language has PACKAGE_BYTES."""
    sizes, turns = Counter[str](), Counter[str]()
    members = corpus.members(package, lambda path: language_of(path) is not None)
    for path, data in sorted(members, key=lambda member: _order(package, member[0])):
        language = language_of(path) or ""
        text, reason = read(path, data) if sizes[language] < PACKAGE_BYTES else ("", "a large package")
        if reason:
            dropped[reason] += 1
        else:
            yield Source(package, path, language, text, turns[language])
            sizes[language] += len(text)
            turns[language] += 1


def sieve(sources: Iterable[Source], shelf: Shelf, dropped: Counter[str]) -> Iterator[Source]:
    """Those unlike the bench and each other, packages taking turns, until a language has LANGUAGE_BYTES."""
    languages: dict[str, Share] = {}
    for source in sorted(sources, key=lambda source: source.order):
        reason = languages.setdefault(source.language, Share()).complaint(source, shelf)
        if reason:
            dropped[reason] += 1
        else:
            yield source


class Share:
    """What one language has so far."""

    def __init__(self) -> None:
        self._size, self._tests, self._seen = 0, 0, Seen()

    def complaint(self, source: Source, shelf: Shelf) -> str | None:
        """Why the file is left out; where there is no reason, it counts from now on."""
        size, tests = self._size + len(source.text), self._tests + len(source.text) * is_test(source.path)
        if size > LANGUAGE_BYTES:
            return "a large language"
        if tests > self._tests and tests > MOST_TESTS * size:
            return "a test"
        found = shingles(source.text)
        if shelf.shares_with(found):
            return "shares text with the bench"
        if self._seen.share(found) > MOST_ALIKE:
            return "a duplicate"
        self._size, self._tests = size, tests
        self._seen.keep(found)
        return None


def encoded(encoder: Tokenizer, sources: Sequence[Source], bar: Bar) -> Iterator[Document]:
    for done, source in enumerate(sources):
        bar.show(done, len(sources), source.path.rpartition("/")[2])
        yield Document(source, np.array(encoder.encode(source.text), np.int32))


def write(
    output: Path, model: str, documents: Iterable[Document], packages: Sequence[Package], dropped: Counter[str]
) -> dict[str, Any]:
    """The arrays, then corpus.json: where that stands, the corpus is whole."""
    index = output / "corpus.json"
    index.unlink(missing_ok=True)
    output.mkdir(parents=True, exist_ok=True)
    parts: dict[tuple[str, str], list[Document]] = {}
    for document in documents:
        parts.setdefault((document.source.language, document.source.part), []).append(document)
    for (language, part), members in parts.items():
        save(output / f"{language}.{part}", [document.token_ids for document in members])
    found = summary(model, parts, packages, dropped)
    index.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def save(stem: Path, documents: Sequence[Ints]) -> None:
    """STEM.tokens.npy: int32 [tokens]; STEM.offsets.npy: int64 [documents + 1]."""
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    np.save(f"{stem}.tokens.npy", np.concatenate(documents))
    np.save(f"{stem}.offsets.npy", offsets)


def summary(
    model: str,
    parts: dict[tuple[str, str], list[Document]],
    packages: Sequence[Package],
    dropped: Counter[str],
) -> dict[str, Any]:
    members = [document for part in parts.values() for document in part]
    by_package = _grouped(members, lambda document: document.source.package.name)
    return {
        "model": model,
        "seed": SEED,
        "languages": {f"{language}.{part}": counts(parts[language, part]) for language, part in sorted(parts)},
        "licences": _counted(_grouped(members, lambda document: document.source.package.licence)),
        "packages": _counted(by_package),
        "packages left out": sorted({package.name for package in packages} - set(by_package)),
        "dropped files": dict(sorted(dropped.items())),
    }


def counts(documents: Sequence[Document]) -> dict[str, int]:
    return {
        "files": len(documents),
        "tokens": sum(len(document.token_ids) for document in documents),
        "bytes": sum(len(document.source.text.encode()) for document in documents),
        "tests": sum(is_test(document.source.path) for document in documents),
    }


def _grouped(documents: Iterable[Document], key: Callable[[Document], str]) -> dict[str, list[Document]]:
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(key(document), []).append(document)
    return groups


def _counted(groups: dict[str, list[Document]]) -> dict[str, dict[str, int]]:
    return {name: counts(groups[name]) for name in sorted(groups)}


def rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, of in found["languages"].items():
        yield name, f"{of['files']:,}", f"{of['tokens']:,}", f"{of['bytes'] / 1e6:.1f}"


def show(found: dict[str, Any]) -> None:
    reasons = [f"{count:,} files left out: {reason}" for reason, count in found["dropped files"].items()]
    print_table(f"Training corpus for {found['model']}", COLUMNS, rows(found), reasons)


def main(
    output: Annotated[Path, typer.Option(help="The folder to write to.")],
    model: Annotated[str, typer.Option(help="A model in the store, for its tokenizer.")] = "starter",
) -> None:
    """Token ids of permissively licensed source files, for training drafts."""
    deliver(partial(build, model, output), show, False, ModelError)


if __name__ == "__main__":
    typer.run(main)
