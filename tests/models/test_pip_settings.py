"""pip's configuration is read as pip reads it, without pip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ghostdraft.models import pip_settings
from ghostdraft.models.pip_settings import DEFAULT_INDEX, PipSettings
from ghostdraft.models.types import DownloadFailed


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home without configuration, and an environment ("site") of its own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "site"))
    monkeypatch.setattr(sys, "platform", "linux")
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_without_configuration_the_default_index_is_used(environment: dict[str, str], tmp_path: Path) -> None:
    environment["XDG_CONFIG_HOME"] = str(tmp_path / "none")
    settings = pip_settings.read({**environment, "PIP_CONFIG_FILE": os.devnull})
    assert settings == PipSettings()
    assert settings.index_urls == (DEFAULT_INDEX,)


def test_later_files_win_and_variables_win_over_all(environment: dict[str, str], tmp_path: Path) -> None:
    def index() -> str:
        return pip_settings.read(environment).index_urls[0]

    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = http://xdg/simple\n")
    assert index() == "http://xdg/simple"
    write(tmp_path / "home/.pip/pip.conf", "[global]\nindex_url = http://legacy/simple\n")
    assert index() == "http://legacy/simple"
    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nindex-url = http://user/simple\n")
    assert index() == "http://user/simple"
    write(tmp_path / "site/pip.conf", "[global]\nindex-url = http://site/simple\n")
    assert index() == "http://site/simple"
    chosen = write(tmp_path / "chosen.conf", "[global]\nindex-url = http://chosen/simple\n")
    environment["PIP_CONFIG_FILE"] = str(chosen)
    assert index() == "http://chosen/simple"
    environment["PIP_INDEX_URL"] = "http://variable/simple"
    assert index() == "http://variable/simple"
    environment["PIP_INDEX_URL"] = ""
    assert index() == "http://chosen/simple"


def test_a_chosen_file_takes_the_place_of_the_users(environment: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nproxy = http://user:1\n")
    environment["PIP_CONFIG_FILE"] = str(write(tmp_path / "chosen.conf", "[global]\ntimeout = 7\n"))
    settings = pip_settings.read(environment)
    assert (settings.proxy, settings.timeout) == (None, 7.0)


def test_every_setting_that_counts(environment: dict[str, str], tmp_path: Path) -> None:
    text = """
[global]
index-url = http://one/simple
extra-index-url =
    http://two/simple
    http://three/simple
cert = global.pem
client-cert = client.pem
proxy = http://proxy:3128
trusted-host = one two:8080
default-timeout = 60

[install]
find-links = wheels /more
cert = install.pem
"""
    write(tmp_path / "site/pip.conf", text)
    settings = pip_settings.read(environment)
    assert settings == PipSettings(
        index_urls=("http://one/simple", "http://two/simple", "http://three/simple"),
        find_links=("wheels", "/more"),
        trusted_hosts=("one", "two:8080"),
        cert="install.pem",
        client_cert="client.pem",
        proxy="http://proxy:3128",
        timeout=60.0,
    )
    assert [settings.trusts(url) for url in ("https://one/a", "https://two/a", "https://two:8080/a")] == [
        True,
        False,
        True,
    ]


def test_no_index_leaves_the_links(environment: dict[str, str]) -> None:
    settings = pip_settings.read({**environment, "PIP_NO_INDEX": "true", "PIP_FIND_LINKS": "wheels"})
    assert (settings.index_urls, settings.find_links) == ((), ("wheels",))


def test_uv_speaks_where_pip_is_silent(environment: dict[str, str]) -> None:
    environment |= {"UV_DEFAULT_INDEX": "http://uv/simple", "UV_INDEX": "mine=http://named/simple http://b/s?x=1"}
    assert pip_settings.read(environment).index_urls == ("http://uv/simple", "http://named/simple", "http://b/s?x=1")
    environment["PIP_INDEX_URL"] = "http://pip/simple"
    assert pip_settings.read(environment).index_urls[0] == "http://pip/simple"


@pytest.mark.parametrize("text", ["no section", "[global\nindex-url = x", "[global]\n[global]\n"])
def test_a_file_that_cannot_be_read_is_told(environment: dict[str, str], tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "site/pip.conf", text)
    with pytest.raises(DownloadFailed) as told:
        pip_settings.read(environment)
    assert str(path) in str(told.value)


def test_a_timeout_that_is_no_number_is_the_default(environment: dict[str, str]) -> None:
    assert pip_settings.read({**environment, "PIP_TIMEOUT": "soon"}).timeout == PipSettings().timeout


@pytest.mark.parametrize(
    ("platform", "paths"),
    [
        ("darwin", ["/Library/Application Support/pip/pip.conf", "home/.pip/pip.conf", "home/.config/pip/pip.conf"]),
        ("win32", ["shared/pip/pip.ini", "home/pip/pip.ini", "roaming/pip/pip.ini"]),
    ],
)
def test_the_places_of_other_systems(platform: str, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    places = {"HOME": "home", "USERPROFILE": "home", "PROGRAMDATA": "shared", "APPDATA": "roaming"}
    assert [path.as_posix() for path in pip_settings._files(places)][:-1] == paths


def test_pip_reads_the_same(tmp_path: Path) -> None:
    """Held against pip itself, where it is installed beside the tests."""
    text = "[global]\nindex-url = http://a/simple\nextra-index-url = http://b/simple\n[install]\nfind-links = wheels\n"
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PIP_CONFIG_FILE": str(write(tmp_path / "pip.conf", text)),
        "PIP_EXTRA_INDEX_URL": "http://c/simple",
    }
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    settings = pip_settings.read(environment)
    assert f":env:.extra-index-url='{settings.index_urls[1]}'" in listed
    assert f"global.index-url='{settings.index_urls[0]}'" in listed
    assert f"install.find-links='{settings.find_links[0]}'" in listed
