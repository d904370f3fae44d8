"""Debian's packages: fetched by apt in its own words, held to their checksums, read without dpkg."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from ghostdraft.benchmarks.corpus import Corpus
from ghostdraft.benchmarks.holes import Package
from ghostdraft.models.types import DownloadFailed, WeightsCorrupt

SOURCE = b"package run\n"


def member(name: str, content: bytes) -> bytes:
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)


def archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz") as tar:
        entry = tarfile.TarInfo("./usr/share/gocode/src/a/run.go")
        entry.size = len(SOURCE)
        tar.addfile(entry, io.BytesIO(SOURCE))
    return file.getvalue()


VERSION = b"!<arch>\n" + member("debian-binary", b"2.0\n")
DEB = VERSION + member("control.tar.xz", b"odd") + member("data.tar.xz", archive())


def package_of(content: bytes, name: str = "a_1.0-1_all.deb") -> Package:
    return Package("debian", "a", "1.0-1", name, hashlib.sha256(content).hexdigest(), "MIT")


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An apt-get that has one place and brings what the script brings."""
    folder.mkdir()
    lines = (
        "#!/bin/sh",
        'case "$*" in',
        "indextargets*) echo http://here stable main; exit;;",
        "*update) exit;;",
        "esac",
    )
    (folder / "apt-get").write_text("\n".join([*lines, script, ""]), encoding="utf-8")
    (folder / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("name", "words"),
    [("a_1.0-1_all.deb", "--quiet download"), ("a_1.0.tar.xz", "--quiet --download-only --tar-only source")],
)
def test_apt_is_asked_for_the_pinned_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    content = DEB if name.endswith(".deb") else archive()
    (tmp_path / "file").write_bytes(content)
    stand_in(tmp_path / "bin", monkeypatch, f'echo "$@" > {tmp_path}/words; cp {tmp_path}/file {name}')
    package, corpus = package_of(content, name), Corpus(tmp_path / "bench")
    corpus.fetch([package])
    said = (tmp_path / "words").read_text(encoding="utf-8").strip()
    assert said.startswith(words)
    assert said.endswith(" a=1.0-1")
    sources = tmp_path / "bench" / "apt" / "sources.list"
    assert f"-oDir::Etc::sourcelist={sources}" in said
    assert sources.read_text(encoding="utf-8") == "deb http://here stable main\ndeb-src http://here stable main\n"
    assert corpus.members(package, lambda path: path.endswith(".go")) == [("./usr/share/gocode/src/a/run.go", SOURCE)]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("script", "error", "told"),
    [
        ("echo 'E: Unable to find a' >&2; exit 100", DownloadFailed, "E: Unable to find a"),
        ("true", DownloadFailed, "brought no a_1.0-1_all.deb"),
        ("echo other > a_1.0-1_all.deb", WeightsCorrupt, "not the file that was pinned"),
    ],
)
def test_what_apt_did_not_bring_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, error: type[Exception], told: str
) -> None:
    stand_in(tmp_path / "bin", monkeypatch, script)
    corpus = Corpus(tmp_path / "bench")
    with pytest.raises(error, match=told):
        corpus.fetch([package_of(DEB)])
    assert [path.name for path in corpus.folder.iterdir()] == ["apt"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_lists_that_did_not_come_are_fetched_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(DEB)
    stand_in(tmp_path / "bin", monkeypatch, f"cp {tmp_path}/file a_1.0-1_all.deb")
    whole = (tmp_path / "bin" / "apt-get").read_text(encoding="utf-8")
    (tmp_path / "bin" / "apt-get").write_text(whole.replace("*update) exit", "*update) exit 100"), encoding="utf-8")
    package, corpus = package_of(DEB), Corpus(tmp_path / "bench")
    with pytest.raises(DownloadFailed, match="It said nothing"):
        corpus.fetch([package])
    (tmp_path / "bin" / "apt-get").write_text(whole, encoding="utf-8")
    corpus.fetch([package])
    assert corpus.path(package).exists()


def test_a_machine_without_apt_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadFailed, match="need apt-get"):
        Corpus(tmp_path / "bench").fetch([package_of(DEB)])


@pytest.mark.parametrize("content", [b"", b"!<arch>\n", b"PK\x03\x04", VERSION])
def test_what_is_no_package_is_told(tmp_path: Path, content: bytes) -> None:
    package, corpus = package_of(content), Corpus(tmp_path)
    corpus.path(package).write_bytes(content)
    with pytest.raises(WeightsCorrupt, match="no Debian package"):
        corpus.members(package, lambda _path: True)
