"""The training corpus: the same each time, many packages, nothing twice, and nothing of the bench."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.benchmarks import training_corpus
from ghostdraft.benchmarks.corpus import Corpus, read_packages
from ghostdraft.benchmarks.holes import Package
from ghostdraft.benchmarks.shingles import Shelf
from ghostdraft.benchmarks.training_corpus import LIST, Source, build, sieve
from ghostdraft.models.types import ModelNotFound
from tests.fakes import ByteTokenizer

Members = dict[str, str]
PERMISSIVE = Package("pypi", "a", "1.0", "a-1.0.tar.gz", "0" * 64, "MIT")


def code(seed: int, lines: int = 40) -> str:
    chance = random.Random(seed)
    names = [chance.choice("abcdefgh") * chance.randint(1, 9) for _ in range(3 * lines)]
    return "".join(f"{a} = {b}({c}, other)\n" for a, b, c in zip(names[::3], names[1::3], names[2::3], strict=True))


def pinned(corpus: Corpus, name: str, members: Members) -> Package:
    """A package that is on the corpus's shelf already."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path, text in members.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    content = file.getvalue()
    package = Package("pypi", name, "1.0", f"{name}-1.0.tar", hashlib.sha256(content).hexdigest(), "MIT")
    corpus.folder.mkdir(parents=True, exist_ok=True)
    corpus.path(package).write_bytes(content)
    return package


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Members, dict[str, Members]], dict[str, Any]]:
    """Builds a corpus from packages by name, beside a bench of one package, in tmp_path/out."""
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path))
    checkpoint = SimpleNamespace(tokenizer_path=None)
    monkeypatch.setattr(training_corpus, "Store", lambda: SimpleNamespace(find=lambda _name: checkpoint))
    monkeypatch.setattr(training_corpus.tokenizer, "load", lambda _path: ByteTokenizer())

    def make(bench: Members, packages: dict[str, Members]) -> dict[str, Any]:
        corpus = Corpus.open()
        lists = {LIST: [("python", pinned(corpus, name, members)) for name, members in packages.items()]}
        bench_list = [("python", pinned(corpus, "bench", bench))]
        monkeypatch.setattr(training_corpus, "read_packages", lambda name="": lists.get(name, bench_list))
        return build("m", tmp_path / "out")

    return make


def documents(folder: Path, stem: str) -> list[str]:
    tokens, offsets = np.load(folder / f"{stem}.tokens.npy"), np.load(folder / f"{stem}.offsets.npy")
    assert (tokens.dtype, offsets.dtype, offsets[0], offsets[-1]) == (np.int32, np.int64, 0, len(tokens))
    return [ByteTokenizer().decode_bytes(part.tolist()).decode() for part in np.split(tokens, offsets[1:-1])]


def test_a_corpus_holds_the_files_of_each_language(made: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    members = {"a.py": code(1), "b.py": code(2), "c.go": "// Copyright Somebody\n\n" + code(3), "notes.txt": code(4)}
    found = made({}, {"one": members})
    assert sorted(documents(tmp_path / "out", "python.train")) == sorted([code(1), code(2)])
    assert documents(tmp_path / "out", "go.train") == [code(3)]
    assert found == json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf-8"))
    assert found["languages"]["go.train"] == {"files": 1, "tokens": len(code(3)), "bytes": len(code(3)), "tests": 0}
    assert found["packages"]["one"]["files"] == found["licences"]["MIT"]["files"] == 3


def test_what_is_left_out_is_counted(made: Callable[..., dict[str, Any]]) -> None:
    members = {"a.py": code(1), "copy.py": code(1), "short.py": "x\n", "third_party/b.py": code(2)}
    found = made({}, {"one": members, "empty": {"short.py": "y\n"}})
    assert found["dropped files"] == {"a copy of another project": 1, "a duplicate": 1, "too short or too long": 2}
    assert found["packages left out"] == ["empty"]


def test_the_same_packages_give_the_same_corpus(made: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    packages = {name: {f"{i}.py": code(100 * at + i) for i in range(20)} for at, name in enumerate(("one", "two"))}
    made({}, packages)
    once = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    made({}, packages)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == once


@pytest.mark.parametrize("bench_path", ["tests/a.py", "third_party/a.py", "a.rs"])
def test_a_file_of_the_bench_is_dropped_whatever_it_is_there(
    made: Callable[..., dict[str, Any]], bench_path: str
) -> None:
    found = made({bench_path: code(1)}, {"one": {"mine.py": code(2) + code(1, 30) + code(3), "other.py": code(4)}})
    assert found["dropped files"] == {"shares text with the bench": 1}
    assert found["languages"]["python.train"]["files"] == 1


def test_a_model_that_is_not_here_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path))
    with pytest.raises(ModelNotFound):
        build("starter", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def source(text: str, path: str = "a/a.py", turn: int = 0) -> Source:
    return Source(PERMISSIVE, path, "python", text, turn)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 9))
def test_nothing_passes_that_was_kept_or_is_of_the_bench(seeds: list[int], of_the_bench: int) -> None:
    sources = [source(code(seed), f"a/{at}.py") for at, seed in enumerate(seeds)]
    shelf = Shelf([code(of_the_bench)])
    kept = list(sieve(sources, shelf, Counter()))
    assert sorted(one.text for one in kept) == sorted(code(seed) for seed in {*seeds} - {of_the_bench})
    assert list(sieve(kept, shelf, Counter())) == kept


def test_a_language_is_full_of_many_packages_and_of_few_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_corpus, "LANGUAGE_BYTES", 10 * len(code(0)))
    large = [source(code(i), f"a/{i}.py", turn=i) for i in range(30)]
    small = [Source(PERMISSIVE, f"{i}/a.py", "python", code(100 + i), 0) for i in range(5)]
    dropped = Counter[str]()
    assert set(small) <= set(sieve([*large, *small], Shelf([]), dropped))
    assert dropped["a large language"]
    tests = [source(code(i), f"a/tests/{i}.py", turn=i) for i in range(5)]
    assert list(sieve(tests, Shelf([]), dropped)) == []
    assert dropped["a test"] == 5


def test_the_list_names_pinned_packages_that_the_bench_does_not_have() -> None:
    listed = [package for _, package in read_packages(LIST)]
    assert {language for language, _ in read_packages(LIST)} == {"python", "typescript", "go", "rust", "c", "java"}
    assert not {package.name for package in listed} & {package.name for _, package in read_packages()}
    assert all(len(package.sha256) == 64 and package.licence for package in listed)
    assert {package.registry for package in listed} == {"pypi", "npm", "debian"}
    assert len({(package.registry, package.name) for package in listed}) == len(listed)
