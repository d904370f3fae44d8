"""The packages behind the holes: fetched once, held to their checksums, read and never run."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from ghostdraft.benchmarks import decode_table, npm
from ghostdraft.benchmarks.corpus import Corpus
from ghostdraft.benchmarks.holes import Block, Hole, HoleList, Package
from ghostdraft.models.types import DownloadFailed, WeightsCorrupt

SOURCE = "void run() {\n    one();\n    two();\n}\n"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that stands in for the index."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def package_of(path: Path) -> Package:
    return Package("pypi", "a", "1.0", path.name, hashlib.sha256(path.read_bytes()).hexdigest(), "MIT")


def wheel(shelf: Path) -> Path:
    path = shelf / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/run.c", SOURCE)
    return path


def source_archive(shelf: Path) -> Path:
    path = shelf / "a-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("a/run.c")
        entry.size = len(SOURCE)
        archive.addfile(entry, io.BytesIO(SOURCE.encode()))
    return path


@pytest.mark.parametrize("make", [wheel, source_archive])
def test_a_hole_is_cut_from_a_fetched_package(shelf: Path, tmp_path: Path, make: object) -> None:
    package = package_of(make(shelf))  # type: ignore[operator]
    corpus, seen = Corpus(tmp_path / "bench"), list[tuple[int, int, str]]()
    corpus.fetch([package], lambda *state: seen.append(state))
    cursor = corpus.cursor(Hole(package, "a/run.c", "c", Block(2, 2, 0.0)))
    assert (cursor.text, cursor.offset) == ("void run() {\n    \n}\n", len("void run() {\n    "))
    assert seen == [(0, 1, "a"), (1, 1, "")]


def test_a_package_is_fetched_once(shelf: Path, tmp_path: Path) -> None:
    path = wheel(shelf)
    package, corpus = package_of(path), Corpus(tmp_path / "bench")
    corpus.fetch([package])
    path.unlink()
    corpus.fetch([package])
    assert corpus.path(package).exists()


def test_what_is_fetched_is_told_once(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = package_of(wheel(shelf))
    hole = Hole(package, "a/run.c", "c", Block(2, 2, 0.0))
    monkeypatch.setattr(decode_table, "load_list", lambda: HoleList((hole,), ""))
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path))
    for told in (True, False):
        decode_table.listed_cursors(1)
        assert (package.artefact in capsys.readouterr().err) is told


def test_other_contents_than_those_pinned_are_refused(shelf: Path, tmp_path: Path) -> None:
    package = package_of(wheel(shelf))
    with zipfile.ZipFile(shelf / package.artefact, "a") as archive:
        archive.writestr("a/more.c", "more")
    corpus = Corpus(tmp_path / "bench")
    with pytest.raises(WeightsCorrupt, match=r"a-1\.0-py3-none-any\.whl, which the bench needs"):
        corpus.fetch([package])
    assert not corpus.path(package).exists()


def test_a_package_that_nobody_has_is_named(shelf: Path, tmp_path: Path) -> None:
    package = package_of(wheel(shelf))
    (shelf / package.artefact).unlink()
    with pytest.raises(DownloadFailed, match="which the bench needs"):
        Corpus(tmp_path / "bench").fetch([package])


@pytest.mark.parametrize(
    ("npmrc", "environment", "name", "expected"),
    [
        ("", {}, "zod", f"{npm.DEFAULT_REGISTRY}/zod/-/zod-4.0.5.tgz"),
        ("registry = https://mirror.example/npm/\n", {}, "zod", "https://mirror.example/npm/zod/-/zod-4.0.5.tgz"),
        (
            "registry=https://a.example",
            {"NPM_CONFIG_REGISTRY": "https://b.example"},
            "zod",
            "https://b.example/zod/-/zod-4.0.5.tgz",
        ),
        (
            "registry=https://a.example\n@s:registry=https://c.example",
            {},
            "@s/zod",
            "https://c.example/@s/zod/-/zod-4.0.5.tgz",
        ),
    ],
)
def test_npm_packages_come_from_where_the_user_has_them(
    tmp_path: Path, npmrc: str, environment: dict[str, str], name: str, expected: str
) -> None:
    path = tmp_path / "npmrc"
    path.write_text(npmrc, encoding="utf-8")
    assert npm.artefact_url(name, "zod-4.0.5.tgz", {"NPM_CONFIG_USERCONFIG": str(path), **environment}) == expected
