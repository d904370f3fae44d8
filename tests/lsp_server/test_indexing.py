"""The server and the files of its workspace: kept for the drafter that copies from them, and for no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ghostdraft.drafting.datastore import Datastore
from ghostdraft.lsp_server import indexing
from tests.fakes import FakeEngine
from tests.lsp_server.harness import Harness, run

CODE = "def load(path):\n    return path\n"
TAIL = CODE[:30].encode()
PAUSE = 0.1  # seconds in which nothing is to happen


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "LEAST_BETWEEN", 0.01)


def folder(path: Path) -> dict[str, str]:
    return {"uri": path.as_uri(), "name": path.name}


async def started(*roots: Path, drafter: str = "corpus", engine: FakeEngine | None = None) -> Harness:
    harness = Harness(engine)
    await harness.start({"drafter": drafter}, workspaceFolders=[folder(root) for root in roots])
    await harness.ready()
    return harness


def names(harness: Harness) -> set[str]:
    assert harness.texts is not None
    return {Path(key).name for key in harness.texts.datastore().keys()}  # noqa: SIM118


def found(harness: Harness) -> set[str]:
    """The names of the files in which TAIL is found."""
    assert harness.texts is not None
    keys = (place.shelf.key_of(place.at) for place in harness.texts.datastore().places(TAIL))
    return {Path(key).name for key in keys if key}


def test_the_files_of_all_folders_are_held_and_no_others(tmp_path: Path) -> None:
    for name in ("one/a.py", "two/b.py", "three/c.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(CODE)

    async def scenario() -> None:
        harness = await started(tmp_path / "one")
        await harness.until(lambda: names(harness) == {"a.py"})
        event = {"added": [folder(tmp_path / "two")], "removed": []}
        harness.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        await harness.until(lambda: names(harness) == {"a.py", "b.py"})
        event = {"added": [], "removed": [folder(tmp_path / "one")]}
        harness.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        await harness.until(lambda: names(harness) == {"b.py"})

    run(scenario())


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        harness = await started(tmp_path)
        (tmp_path / "a.py").write_text(CODE)
        harness.notify("textDocument/didSave", {"textDocument": {"uri": (tmp_path / "a.py").as_uri()}})
        await harness.until(lambda: names(harness) == {"a.py"})

    run(scenario())


def test_open_documents_are_not_drafted_from(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(CODE)

    async def scenario() -> None:
        harness = await started(tmp_path)
        harness.open(CODE, (tmp_path / "a.py").as_uri())
        await harness.until(lambda: found(harness) == {"b.py"})
        harness.notify("textDocument/didClose", {"textDocument": {"uri": (tmp_path / "a.py").as_uri()}})
        await harness.until(lambda: found(harness) == {"a.py", "b.py"})

    run(scenario())


def test_other_drafters_have_nothing_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)

    async def scenario() -> None:
        harness = await started(tmp_path, drafter="ngram")
        await asyncio.sleep(PAUSE)
        assert names(harness) == set()
        harness.notify("workspace/didChangeConfiguration", {"settings": {"drafter": "corpus"}})
        await harness.until(lambda: names(harness) == {"a.py"})

    run(scenario())


def test_what_a_folder_excludes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".ghostdraft.toml").write_text('exclude = ["a.py"]\n')
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(CODE)

    async def scenario() -> None:
        harness = await started(tmp_path)
        await harness.until(lambda: names(harness) == {"b.py"})

    run(scenario())


def test_nothing_is_read_while_the_model_works(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        harness = await started(tmp_path, engine=engine)
        harness.open(CODE)
        request = harness.complete(0, 3)
        await harness.until(lambda: engine.seen)
        (tmp_path / "a.py").write_text(CODE)
        harness.notify("textDocument/didSave", {"textDocument": {"uri": (tmp_path / "a.py").as_uri()}})
        await asyncio.sleep(PAUSE)
        assert names(harness) == set()
        engine.gate.set()
        await harness.result(request)
        await harness.until(lambda: names(harness) == {"a.py"})

    run(scenario())


def test_a_scan_that_fails_is_logged_and_the_server_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_self: Datastore, _key: str, _text: bytes) -> bool:
        raise RuntimeError("secret text")

    (tmp_path / "a.py").write_text(CODE)
    monkeypatch.setattr(Datastore, "put", fail)

    async def scenario() -> None:
        engine = FakeEngine()
        harness = await started(tmp_path, engine=engine)
        await harness.until(lambda: "RuntimeError" in caplog.text)
        assert "secret text" not in caplog.text
        engine.gate.set()
        harness.open(CODE)
        assert await harness.result(harness.complete(0, 3))

    run(scenario())
