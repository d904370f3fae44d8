"""Downloads over a server that breaks off, lies, refuses or is not there; pages of links; trust."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ghostdraft.models import package_index, transfer
from ghostdraft.models.pip_settings import PipSettings
from ghostdraft.models.transfer import Http
from ghostdraft.models.types import DownloadFailed, WeightsCorrupt
from tests.models.http_server import Site, serving

BODY = bytes(range(256)) * 5000
CHUNK = transfer._CHUNK
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(transfer, "_WAITS", (0.0, 0.0, 0.0))
    with serving() as site:
        site.pages["/file"] = ("application/octet-stream", BODY)
        yield site


@pytest.fixture
def http() -> Http:
    return Http(PipSettings())


def bring(http: Http, site: Site, folder: Path, size: int | None = len(BODY), sha256: str | None = SHA) -> list[int]:
    seen: list[int] = []
    transfer.download(http, f"{site.url}/file", folder / "file", seen.append, size, sha256)
    return seen


def test_a_file_comes_whole(http: Http, site: Site, tmp_path: Path) -> None:
    seen = bring(http, site, tmp_path)
    assert (tmp_path / "file").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert seen == sorted(seen)
    assert seen[-1] == len(BODY)


def test_a_file_that_is_there_is_not_asked_for(http: Http, site: Site, tmp_path: Path) -> None:
    bring(http, site, tmp_path)
    bring(http, site, tmp_path)
    assert site.asked("/file") == 1


def test_what_broke_off_is_gone_on_with(http: Http, site: Site, tmp_path: Path) -> None:
    site.break_off["/file"] = [400_000, 300_000]
    bring(http, site, tmp_path)
    assert (tmp_path / "file").read_bytes() == BODY
    starts = [int(headers.get("Range", "bytes=0-")[6:-1]) for _, headers in site.requests]
    assert starts == [0, 400_000 // CHUNK * CHUNK, 400_000 // CHUNK * CHUNK + 300_000 // CHUNK * CHUNK]


def test_a_server_without_ranges_sends_all_again(http: Http, site: Site, tmp_path: Path) -> None:
    site.ranges = False
    site.break_off["/file"] = [400_000]
    bring(http, site, tmp_path)
    assert (tmp_path / "file").read_bytes() == BODY


def test_tries_are_used_up_only_where_nothing_moves(http: Http, site: Site, tmp_path: Path) -> None:
    site.break_off["/file"] = [CHUNK] * 10 + [0] * 100
    with pytest.raises(DownloadFailed, match="broke off"):
        bring(http, site, tmp_path)
    assert (tmp_path / "file.part").stat().st_size == 10 * CHUNK
    assert site.asked("/file") == 13
    site.break_off.clear()
    bring(http, site, tmp_path)
    assert (tmp_path / "file").read_bytes() == BODY


def test_other_contents_are_told_and_deleted(http: Http, site: Site, tmp_path: Path) -> None:
    with pytest.raises(WeightsCorrupt, match="sha256"):
        bring(http, site, tmp_path, sha256="0" * 64)
    with pytest.raises(WeightsCorrupt, match="sha256"):
        bring(http, site, tmp_path, size=7, sha256=None)
    assert list(tmp_path.iterdir()) == []


def test_the_rest_of_another_file_is_thrown_away(http: Http, site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"the beginning of something else")
    bring(http, site, tmp_path)
    assert (tmp_path / "file").read_bytes() == BODY
    (tmp_path / "file").unlink()
    (tmp_path / "file.part").write_bytes(BODY + b"and more")
    bring(http, site, tmp_path)
    assert (tmp_path / "file").read_bytes() == BODY


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (429, 4), (503, 4)])
def test_a_refusal_is_told(http: Http, site: Site, tmp_path: Path, status: int, tries: int) -> None:
    site.refuse["/file"] = status
    with pytest.raises(DownloadFailed, match=str(status)):
        bring(http, site, tmp_path)
    assert site.asked("/file") == tries


def test_passwords_are_not_shown(http: Http, site: Site, tmp_path: Path) -> None:
    url = site.url.replace("//", "//someone:secret@") + "/none"
    with pytest.raises(DownloadFailed) as told:
        transfer.download(http, url, tmp_path / "file", lambda _done: None)
    assert "secret" not in str(told.value)
    assert site.url in str(told.value)
    assert site.requests[0][1]["Authorization"].startswith("Basic ")


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_nobody_there_is_told(http: Http, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_WAITS", (0.0,))
    url = f"http://127.0.0.1:{closed_port()}/file"
    with pytest.raises(DownloadFailed, match="cannot be reached"):
        transfer.page(http, url, "*/*")
    with pytest.raises(DownloadFailed, match="cannot be reached"):
        transfer.download(http, url, tmp_path / "file", lambda _done: None)


def test_a_proxy_that_is_not_there_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    http = Http(PipSettings(proxy=f"http://127.0.0.1:{closed_port()}"))
    with pytest.raises(DownloadFailed, match="proxy"):
        transfer.page(http, f"{site.url}/file", "*/*")


def test_a_certificate_file_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    http = Http(PipSettings(cert="none.pem"))
    with pytest.raises(DownloadFailed, match=r"none\.pem"):
        transfer.page(http, f"https://127.0.0.1:{closed_port()}/", "*/*")


def test_a_file_url_is_copied(http: Http, tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(BODY)
    url = (tmp_path / "a file").as_uri()
    assert transfer.download(http, url, tmp_path / "copy", lambda _done: None, len(BODY), SHA) == SHA
    with pytest.raises(DownloadFailed, match="does not exist"):
        transfer.download(http, url + "x", tmp_path / "other", lambda _done: None)


def found(settings: PipSettings, project: str = "Some_Thing", version: str = "1.2") -> package_index.Link:
    return package_index.find_wheel(Http(settings), project, version)


WHEEL = "some_thing-1.2-py3-none-any.whl"


def test_a_wheel_is_found_in_an_html_index(site: Site) -> None:
    site.index(
        "some-thing",
        {"some_thing-1.1-py3-none-any.whl": b"", "some_thing-1.2.tar.gz": b"", WHEEL: b"w"},
        **{WHEEL: SHA},
    )
    link = found(PipSettings(index_urls=(f"{site.url}/simple",)))
    assert link == package_index.Link(WHEEL, f"{site.url}/files/{WHEEL}", SHA)


def test_a_wheel_is_found_in_a_json_index(site: Site) -> None:
    body = f'{{"files": [{{"filename": "{WHEEL}", "url": "../../f/{WHEEL}", "hashes": {{"sha256": "{SHA}"}}}}]}}'
    site.pages["/simple/some-thing/"] = ("application/vnd.pypi.simple.v1+json", body.encode())
    link = found(PipSettings(index_urls=(f"{site.url}/simple/",)))
    assert link == package_index.Link(WHEEL, f"{site.url}/f/{WHEEL}", SHA)


def test_a_password_for_the_index_goes_to_its_files_too(site: Site) -> None:
    site.index("some-thing", {WHEEL: b""})
    with_password = site.url.replace("//", "//me:secret@")
    assert found(PipSettings(index_urls=(f"{with_password}/simple",))).url == f"{with_password}/files/{WHEEL}"


@pytest.mark.parametrize("form", ["folder", "file url", "page", "index"])
def test_a_wheel_is_found_on_this_disk(tmp_path: Path, form: str) -> None:
    (tmp_path / WHEEL).write_bytes(b"")
    (tmp_path / "links.html").write_text(f'<a href="{WHEEL}#sha256={SHA}">it</a>', "utf-8")
    (tmp_path / "some-thing").mkdir()
    (tmp_path / "some-thing/index.html").write_text(f'<a href="../{WHEEL}">it</a>', "utf-8")
    settings = {
        "folder": PipSettings(index_urls=(), find_links=(str(tmp_path),)),
        "file url": PipSettings(index_urls=(), find_links=(tmp_path.as_uri(),)),
        "page": PipSettings(index_urls=(), find_links=(str(tmp_path / "links.html"),)),
        "index": PipSettings(index_urls=(tmp_path.as_uri(),)),
    }
    assert found(settings[form]).url == (tmp_path / WHEEL).as_uri()


def test_later_places_are_asked_where_the_first_fail(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_WAITS", (0.0,))
    site.index("some-thing", {WHEEL: b""})
    nobody = f"http://127.0.0.1:{closed_port()}/simple"
    settings = PipSettings(index_urls=(nobody, f"{site.url}/empty", f"{site.url}/simple"))
    assert found(settings).filename == WHEEL


@pytest.mark.parametrize("page", [b"{}", b"[1]", b'{"files": [{"filename": 1}]}', b"no json"])
def test_what_no_place_has_is_told_with_what_each_said(site: Site, page: bytes, tmp_path: Path) -> None:
    site.pages["/odd/some-thing/"] = ("application/vnd.pypi.simple.v1+json", page)
    settings = PipSettings((f"{site.url}/odd", f"{site.url}/none"), find_links=(str(tmp_path),))
    with pytest.raises(DownloadFailed) as told:
        found(settings)
    for said in ("Some_Thing 1.2", str(tmp_path), "no index", "404"):
        assert said in str(told.value)


@pytest.mark.parametrize(
    "filename", ["../../some_thing-1.2-x.whl", "some_thing-1.2.1-py3-none-any.whl", "other-1.2-x.whl"]
)
def test_other_files_are_no_match(filename: str) -> None:
    assert not package_index._is_wheel_of(filename, "some-thing", "1.2")
