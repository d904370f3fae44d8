"""Finds a package's file by project and version: in folders and pages of links, in package indexes (PEP 503, PEP 691).

Knows nothing of what is in it; nothing is ever installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from ghostdraft.models import transfer
from ghostdraft.models.transfer import Http
from ghostdraft.models.types import DownloadFailed

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, slots=True)
class Link:
    """A file that an index offers. `sha256` as the index gives it."""

    filename: str
    url: str
    sha256: str | None = None


def find_wheel(http: Http, project: str, version: str) -> Link:
    """The first one in find-links, index and extra indexes. Raises DownloadFailed with what each of them said."""
    return _first(http, project, version, lambda filename: _is_wheel_of(filename, project, version))


def find_file(http: Http, project: str, version: str, filename: str) -> Link:
    """The file of that name, a wheel or a source archive, from the same places. Raises DownloadFailed as well."""
    return _first(http, project, version, lambda found: found == filename)


def _first(http: Http, project: str, version: str, wanted: Callable[[str], bool]) -> Link:
    complaints: list[str] = []
    for place in _places(http, project):
        try:
            for link in _links(http, place):
                if wanted(link.filename):
                    return link
            complaints.append(f"{transfer.without_password(place)} does not have it.")
        except DownloadFailed as error:
            complaints.append(str(error))
    raise DownloadFailed(f"The package {project} {version} was not found. " + " ".join(complaints))


def _places(http: Http, project: str) -> Iterator[str]:
    yield from http.settings.find_links
    yield from (f"{index.rstrip('/')}/{_normal(project)}/" for index in http.settings.index_urls)


def _normal(project: str) -> str:
    return re.sub(r"[-_.]+", "-", project).lower()


def _is_wheel_of(filename: str, project: str, version: str) -> bool:
    name, *rest = filename.split("-")
    is_wheel = re.fullmatch(r"[\w.+!-]+\.whl", filename) is not None
    return is_wheel and _normal(name) == _normal(project) and rest[:1] == [version]


def _links(http: Http, place: str) -> Iterator[Link]:
    if "://" not in place and not place.startswith("file:"):
        return _local_links(Path(place).expanduser())
    if place.startswith("file:"):
        return _local_links(transfer.local_path(place))
    return _page_links(http, place)


def _local_links(path: Path) -> Iterator[Link]:
    """A folder of files, a folder with an index.html, or a page. What is not there has no links, as with pip."""
    if (path / "index.html").is_file():
        path = path / "index.html"
    if path.is_file():
        yield from _html_links(path.read_text(encoding="utf-8"), path.resolve().as_uri())
    elif path.is_dir():
        yield from (Link(child.name, child.resolve().as_uri()) for child in sorted(path.iterdir()))


def _page_links(http: Http, url: str) -> Iterator[Link]:
    final, kind, body = transfer.page(http, url, _ACCEPT)
    links = _json_links(body, final) if kind.startswith(_JSON) else _html_links(body.decode("utf-8", "replace"), final)
    return (Link(link.filename, _with_credentials(link.url, url), link.sha256) for link in links)


def _with_credentials(link: str, index: str) -> str:
    """An index with a password in its URL wants it for its files too."""
    theirs, ours = urlsplit(index), urlsplit(link)
    credentials, _, host = theirs.netloc.rpartition("@")
    return ours._replace(netloc=theirs.netloc).geturl() if credentials and ours.netloc == host else link


def _json_links(body: bytes, base: str) -> Iterator[Link]:
    try:
        files = json.loads(body)["files"]
        for file in files:
            yield Link(file["filename"], urljoin(base, file["url"]), file.get("hashes", {}).get("sha256"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DownloadFailed(f"{transfer.without_password(base)} answered with a page that is no index.") from error


def _html_links(text: str, base: str) -> Iterator[Link]:
    for target in _Anchors.of(text):
        url, fragment = urldefrag(urljoin(base, target))
        algorithm, _, digest = fragment.partition("=")
        yield Link(unquote(urlsplit(url).path.rpartition("/")[2]), url, digest if algorithm == "sha256" else None)


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if tag == "a" and target:
            self.targets.append(target)

    @staticmethod
    def of(text: str) -> list[str]:
        parser = _Anchors()
        parser.feed(text)
        return parser.targets
