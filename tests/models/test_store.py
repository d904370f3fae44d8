"""The store keeps whole models only, tells damaged ones, and lets one process at a time work on a name."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import platformdirs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ghostdraft.models import store as stores
from ghostdraft.models.acquire import import_file
from ghostdraft.models.checkpoint import Checkpoint, mend, open_checkpoint
from ghostdraft.models.store import Store, plain_name
from ghostdraft.models.types import ModelError, ModelNotFound, WeightsCorrupt
from tests.models.published import gguf_file


@pytest.fixture
def mine(store: Store, tmp_path: Path) -> Checkpoint:
    return import_file(store, gguf_file(tmp_path / "mine.gguf"))


def test_home_is_the_users_data_folder_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path))
    assert Store().home == tmp_path
    monkeypatch.delenv("GHOSTDRAFT_HOME")
    assert Store().home == Path(platformdirs.user_data_dir("ghostdraft", appauthor=False))


def accepted(store: Store, name: str) -> Path | None:
    try:
        return store.folder(name)
    except ModelNotFound:
        return None


@given(names=st.lists(st.one_of(st.text(max_size=8), st.text("a/-.: _@\n", max_size=8)), min_size=2, unique=True))
@example(
    names=[
        "owner/name",
        "owner--name",
        "a b",
        "a_b",
        "..",
        "../../etc",
        "a\\b:c",
        ".hidden",
        "é",
        "x\n",
        "C:",
        "a/b:c/d",
        "a/b/c:d",
        "a/b@c/d",
    ]
)
def test_every_name_has_a_folder_of_its_own_inside_the_store(names: list[str]) -> None:
    store = Store(Path("home").resolve())
    folders = [folder for name in names if (folder := accepted(store, name))]
    assert len(set(folders)) == len(folders)
    assert all(folder.parent == folder.resolve().parent == store.home / "models" for folder in folders)


@pytest.mark.parametrize("name", ["", "..", "../evil", "a b", "a--b", "a/b/c", "a\n", ".hidden", "x" * 300])
def test_what_cannot_be_a_name_is_told(store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFound, match="models list"):
        store.remove(name)
    if name:
        with pytest.raises(ModelNotFound, match="models list"):
            import_file(store, gguf_file(tmp_path / "mine.gguf"), name)


@given(st.text(max_size=120))
def test_every_file_has_a_plain_name(text: str) -> None:
    assert accepted(Store(Path("home")), plain_name(text))
    assert plain_name(plain_name(text)) == plain_name(text)


def test_no_name_is_no_model(store: Store, mine: Checkpoint) -> None:
    for use in (store.find, store.remove, store.has, store.partial):
        with pytest.raises(ModelNotFound):
            use("")
    assert store.list() == [mine]


def test_what_was_stored_is_read_back(store: Store, mine: Checkpoint) -> None:
    assert open_checkpoint(mine.folder) == mine
    assert store.find("mine") == mine
    assert store.list() == [mine]
    assert mine.size > sum(file.size for file in mine.files)


def test_the_mend_of_damage_is_how_the_model_came(tmp_path: Path) -> None:
    assert mend("tiny", "packages: some 1.0").endswith("models remove tiny && ghostdraft models pull tiny")
    assert mend("me/model", "hub: me/model").endswith("models remove me/model && ghostdraft models pull me/model")
    assert mend("mine", str(tmp_path)).endswith(f"remove mine && ghostdraft models import {tmp_path} --name mine")
    assert mend("mine", str(tmp_path / "gone")).endswith("ghostdraft models remove mine")
    assert mend("tiny", str(tmp_path / "gone")).endswith("ghostdraft models pull tiny")
    assert mend("me--model", None).endswith("ghostdraft models remove me--model")


def test_an_absent_name_is_told_with_the_mend(store: Store) -> None:
    with pytest.raises(ModelNotFound, match="ghostdraft models pull starter"):
        store.find("starter")
    with pytest.raises(ModelNotFound, match="Did you mean starter"):
        store.find("startr")
    with pytest.raises(ModelNotFound, match="models list"):
        store.find("zzzzzz")
    with pytest.raises(ModelNotFound, match=r"not on this disk.*ghostdraft models pull foo/bar"):
        store.find("foo/bar")
    assert store.list() == []


def test_a_cut_file_is_told_and_not_listed(store: Store, mine: Checkpoint) -> None:
    content = mine.weights[0].read_bytes()
    mine.weights[0].write_bytes(content[:-1])
    with pytest.raises(WeightsCorrupt, match="models remove mine"):
        store.find("mine")
    assert store.list() == []
    mine.weights[0].unlink()
    with pytest.raises(WeightsCorrupt, match="missing"):
        store.find("mine")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1}', '{"format": 1, "files": [{}], "spec": {}}'])
def test_a_damaged_manifest_is_told(store: Store, mine: Checkpoint, text: str) -> None:
    (mine.folder / "checkpoint.json").write_text(text, "utf-8")
    with pytest.raises(WeightsCorrupt, match="models remove mine"):
        store.find("mine")


def test_another_format_version_is_told(store: Store, mine: Checkpoint) -> None:
    path = mine.folder / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "format": 0}), "utf-8")
    with pytest.raises(WeightsCorrupt, match="another version"):
        store.find("mine")


def test_remove_leaves_nothing(store: Store, mine: Checkpoint) -> None:
    store.partial("mine").mkdir(parents=True)
    store.remove("mine")
    assert not mine.folder.exists()
    assert not store.partial("mine").exists()
    with pytest.raises(ModelNotFound):
        store.remove("mine")


def test_a_model_in_use_that_cannot_be_removed_stays_whole(
    store: Store, mine: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_use(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(stores.os, "replace", in_use)
    with pytest.raises(ModelError, match="Close the editors"):
        store.remove("mine")
    assert store.find("mine") == mine


def test_a_home_that_cannot_be_written_is_told_with_its_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", Path("/proc/nowhere")):
        with pytest.raises(ModelError, match=f"below {home}, .*Set GHOSTDRAFT_HOME"), Store(home).lock("a", list):
            pass


def test_the_lock_lets_one_in(store: Store) -> None:
    waiting, inside, order = threading.Event(), threading.Event(), []

    def second() -> None:
        with Store(store.home).lock("a/b", waiting.set):
            order.append("second")

    with store.lock("a/b", lambda: order.append("never")):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        assert not inside.is_set()
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
