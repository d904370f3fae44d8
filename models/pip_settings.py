"""Where the user's packages come from: pip's configuration, read as pip reads it, without pip.

Later ones win: global, user and environment ("site") files, the file that PIP_CONFIG_FILE names, PIP_* variables.
What pip leaves unsaid is taken from uv's variables. Knows nothing of what is fetched from there.
https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ghostdraft.models.types import DownloadFailed

DEFAULT_TIMEOUT = 15.0
DEFAULT_INDEX = "https://pypi.org/simple"

_SECTIONS = ("global", "install")
_FROM_UV = {
    "UV_INDEX_URL": "index-url",
    "UV_DEFAULT_INDEX": "index-url",
    "UV_EXTRA_INDEX_URL": "extra-index-url",
    "UV_INDEX": "extra-index-url",
    "UV_FIND_LINKS": "find-links",
}


@dataclass(frozen=True, slots=True)
class PipSettings:
    """`find_links` are folders, pages or their URLs; `timeout` is in seconds; `trusted_hosts` need no certificate."""

    index_urls: tuple[str, ...] = (DEFAULT_INDEX,)
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: float = DEFAULT_TIMEOUT

    def trusts(self, url: str) -> bool:
        parts = urlsplit(url)
        return parts.hostname in self.trusted_hosts or f"{parts.hostname}:{parts.port}" in self.trusted_hosts


def read(environment: Mapping[str, str] = os.environ) -> PipSettings:
    """Raises DownloadFailed where a configuration file cannot be read."""
    values = _from_uv(environment)
    for path in _files(environment):
        values |= _file_values(path)
    values |= _from_variables(environment)
    return _settings(values)


def _settings(values: Mapping[str, str]) -> PipSettings:
    indexes = (values.get("index-url", DEFAULT_INDEX), *values.get("extra-index-url", "").split())
    no_index = values.get("no-index", "").lower() in ("1", "true", "yes", "on")
    return PipSettings(
        index_urls=() if no_index else indexes,
        find_links=tuple(values.get("find-links", "").split()),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        cert=values.get("cert"),
        client_cert=values.get("client-cert"),
        proxy=values.get("proxy"),
        timeout=_seconds(values.get("timeout") or values.get("default-timeout")),
    )


def _seconds(text: str | None) -> float:
    try:
        return float(text) if text else DEFAULT_TIMEOUT
    except ValueError:
        return DEFAULT_TIMEOUT


def _from_uv(environment: Mapping[str, str]) -> dict[str, str]:
    """uv separates by commas where pip has blanks, and may name an index: "name=url"."""
    said = {key: environment[name] for name, key in _FROM_UV.items() if environment.get(name)}
    return {key: " ".join(_unnamed(one) for one in text.replace(",", " ").split()) for key, text in said.items()}


def _unnamed(index: str) -> str:
    name, equals, url = index.partition("=")
    return url if equals and "/" not in name else index


def _from_variables(environment: Mapping[str, str]) -> dict[str, str]:
    named = {name: text for name, text in environment.items() if name.startswith("PIP_") and text}
    return {name.removeprefix("PIP_").lower().replace("_", "-"): text for name, text in named.items()}


def _file_values(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise DownloadFailed(f"pip's configuration {path} cannot be read: {error}. Mend or remove it.") from error
    sections = (parser.items(section) for section in _SECTIONS if parser.has_section(section))
    items = (item for section in sections for item in section)
    return {key.replace("_", "-").removeprefix("--"): text for key, text in items if text}


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    chosen = environment.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    yield from (folder / name for folder in _global_folders(environment))
    if not (chosen and Path(chosen).exists()):
        yield from (folder / name for folder in _user_folders(environment))
    yield Path(sys.prefix, name)
    if chosen:
        yield Path(chosen)


def _global_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    if sys.platform == "win32":
        yield Path(environment.get("PROGRAMDATA", r"C:\ProgramData"), "pip")
    elif sys.platform == "darwin":
        yield Path("/Library/Application Support/pip")
    else:
        shared = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
        yield from (Path(folder, "pip") for folder in reversed(shared.split(os.pathsep)))
        yield Path("/etc")


def _user_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The legacy one first."""
    home = Path(environment.get("USERPROFILE" if sys.platform == "win32" else "HOME") or Path.home())
    if sys.platform == "win32":
        yield home / "pip"
        yield Path(environment.get("APPDATA") or home / "AppData/Roaming", "pip")
        return
    yield home / ".pip"
    preferred = home / "Library/Application Support/pip"
    if sys.platform == "darwin" and preferred.is_dir():
        yield preferred
    else:
        yield Path(environment.get("XDG_CONFIG_HOME") or home / ".config", "pip")
