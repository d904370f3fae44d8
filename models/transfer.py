"""Gets pages and files over HTTP as the user's package settings say, and from file: URLs.

Downloads go on where they broke off, are compared with their size and checksum, and get their name at the end.
Knows nothing of models, hubs and indexes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

import requests
import truststore
from requests.adapters import HTTPAdapter

from ghostdraft.models.pip_settings import PipSettings
from ghostdraft.models.progress import Advance
from ghostdraft.models.types import DownloadFailed, WeightsCorrupt

_CHUNK = 1 << 16  # bytes; of a connection that breaks off, what came of the last one is lost
_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each further try
_CONNECT = 5.0  # seconds; an address that does not answer is given up soon
_SERVER_ERROR = 500  # and above


class Http:
    """A session that honours certificates, proxies, netrc and trusted hosts as pip would."""

    def __init__(self, settings: PipSettings) -> None:
        self.settings = settings
        self._session = requests.Session()
        self._session.mount("https://", _SystemTrust())
        for host in settings.trusted_hosts:
            self._session.mount(f"https://{host}", HTTPAdapter())
        self._session.cert = settings.client_cert
        if settings.proxy:
            self._session.proxies = {"http": settings.proxy, "https": settings.proxy}

    def get(self, url: str, headers: Mapping[str, str], stream: bool = False) -> requests.Response:
        """The response, whatever its status. Raises requests.RequestException, DownloadFailed."""
        verify = False if self.settings.trusts(url) else self.settings.cert
        timeout = (min(_CONNECT, self.settings.timeout), self.settings.timeout)
        try:
            return self._session.get(url, headers=dict(headers), stream=stream, timeout=timeout, verify=verify)
        except requests.RequestException:
            raise
        except OSError as error:
            raise DownloadFailed(f"A certificate that the network settings name cannot be read: {error}.") from error


class _SystemTrust(HTTPAdapter):
    """Trusts what the operating system trusts, companies' own certificates included, beside requests' own list."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=_context(), **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=_context(), **options)


def _context() -> ssl.SSLContext:
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def page(http: Http, url: str, accept: str) -> tuple[str, str, bytes]:
    """A page's final URL, content type and body. Raises DownloadFailed."""
    try:
        response = _twice(http, url, accept)
    except requests.RequestException as error:
        raise unreachable(url, error) from error
    if response.status_code != requests.codes.ok:
        raise _refused(url, response)
    return response.url, response.headers.get("Content-Type", ""), response.content


def _twice(http: Http, url: str, accept: str) -> requests.Response:
    try:
        return http.get(url, {"Accept": accept})
    except requests.ConnectionError:
        time.sleep(_WAITS[0])
        return http.get(url, {"Accept": accept})


def download(
    http: Http,
    url: str,
    target: Path,
    advance: Advance,
    size: int | None = None,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Brings `url` to `target`, where that is not there yet, and returns its sha256; `size` in bytes.

    An interrupted download lies at `target` + ".part" and is gone on with. Raises DownloadFailed when retries are
    used up, WeightsCorrupt where size or checksum differ, OSError.
    """
    if target.exists() and not _differs(target, found := file_sha256(target), size, sha256):
        return found
    part = target.with_name(target.name + ".part")
    for _ in range(1 + part.exists()):  # what was gone on with may have been the beginning of something else
        _bring(http, url, part, advance, headers or {})
        found = file_sha256(part)
        if not _differs(part, found, size, sha256):
            os.replace(part, target)
            return found
        part.unlink()
    raise _other_contents(target.name, found)


def _other_contents(name: str, found: str) -> WeightsCorrupt:
    return WeightsCorrupt(
        f"{name} came with other contents than its publisher's (sha256 {found}). Try again; if it stays so, "
        "what stands between here and there changes files: try another network or index."
    )


def _differs(part: Path, found: str, size: int | None, sha256: str | None) -> bool:
    return (size is not None and part.stat().st_size != size) or (sha256 is not None and found != sha256)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bring(http: Http, url: str, part: Path, advance: Advance, headers: Mapping[str, str]) -> None:
    if url.startswith("file:"):
        return _copy(local_path(url), part, advance)
    waits = iter(_WAITS)
    while True:
        before = _length(part)
        try:
            return _bring_rest(http, url, part, advance, headers)
        except requests.RequestException as error:
            if _length(part) > before:
                waits = iter(_WAITS)  # it moves: patience begins anew
            wait = next(waits, None)
            if wait is None:
                raise unreachable(url, error) from error
        time.sleep(wait)


def _copy(source: Path, part: Path, advance: Advance) -> None:
    if not source.is_file():
        raise DownloadFailed(f"{source} does not exist, though an index or a page of links names it.")
    shutil.copyfile(source, part)
    advance(part.stat().st_size)


def _bring_rest(http: Http, url: str, part: Path, advance: Advance, headers: Mapping[str, str]) -> None:
    """Appends what is missing; a server that knows no ranges sends all again."""
    start = _length(part)
    asked = {**headers, "Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with http.get(url, asked, stream=True) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            return  # all of it is here; the checksum tells
        if response.status_code >= _SERVER_ERROR or response.status_code == requests.codes.too_many:
            response.raise_for_status()
        if not response.ok:
            raise _refused(url, response)
        resumes = response.status_code == requests.codes.partial_content
        _write(response, part, start if resumes else 0, advance)


def _write(response: requests.Response, part: Path, start: int, advance: Advance) -> None:
    with part.open("ab" if start else "wb") as file:
        for chunk in response.iter_content(_CHUNK):
            file.write(chunk)
            start += len(chunk)
            advance(start)


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def local_path(url: str) -> Path:
    return Path(url2pathname(urlsplit(url).path))


def without_password(url: str) -> str:
    """For people's eyes and logs."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def unreachable(url: str, error: Exception) -> DownloadFailed:
    return DownloadFailed(f"{without_password(url)} {_reason(error)}.")


def _reason(error: Exception) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "has a certificate that is not trusted here (set SSL_CERT_FILE or pip's `cert` to your company's)"
    if isinstance(error, requests.exceptions.ProxyError):
        return "cannot be reached through the proxy (see HTTPS_PROXY and pip's `proxy`)"
    if isinstance(error, requests.Timeout):
        return "does not answer"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"answered {error.response.status_code} {error.response.reason} again and again"
    return "cannot be reached, or broke off again and again"


def _refused(url: str, response: requests.Response) -> DownloadFailed:
    return DownloadFailed(f"{without_password(url)} answered {response.status_code} {response.reason}.")
