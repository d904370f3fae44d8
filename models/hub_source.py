"""A repository on the model hub as a source of a model. Endpoint and token are those that huggingface_hub knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from huggingface_hub import HfApi, ModelInfo, get_token, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled
from huggingface_hub.hf_api import RepoSibling

from ghostdraft.models import transfer
from ghostdraft.models.checkpoint import SourceFile
from ghostdraft.models.local_files import COMPANIONS, choose
from ghostdraft.models.pip_settings import PipSettings
from ghostdraft.models.progress import Offer, Stage, Watch, from_byte
from ghostdraft.models.registry import Hub, KnownModel
from ghostdraft.models.transfer import Http
from ghostdraft.models.types import DownloadFailed, ModelNotFound

_ABSENT = (401, 404)  # what is private looks absent
_ANSWER = 5.0  # seconds; after that the next source is tried


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """`path` is its place in the repository; `sha256` as the hub gives it, which it does for large files."""

    path: str
    size: int
    sha256: str | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class HubSource:
    """The files of one revision of a repository; `gated`: its publisher asks for consent first."""

    offer: Offer
    repo: str
    revision: str | None
    files: tuple[RemoteFile, ...]
    gated: bool

    def fetch(self, folder: Path, watch: Watch) -> tuple[SourceFile, ...]:
        try:
            brought = tuple(self._fetch(folder, watch))
        except DownloadFailed as error:
            consent = " Accept its licence on its page at the hub, then: hf auth login" if self.gated else ""
            raise DownloadFailed(f"{error}{consent}") from error
        return tuple(file for file in brought if file.name not in COMPANIONS)

    def _fetch(self, folder: Path, watch: Watch) -> Iterator[SourceFile]:
        http, before, token = Http(PipSettings()), 0, get_token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for file in self.files:
            url = hf_hub_url(self.repo, file.path, revision=self.revision)
            advance = from_byte(watch, Stage.DOWNLOADING, before, self.offer.size)
            digest = transfer.download(http, url, folder / file.name, advance, file.size, file.sha256, headers)
            before += file.size
            yield SourceFile(file.name, file.size, digest)


def open_hub(hub: Hub, name: str, known: KnownModel | None) -> HubSource:
    """Raises DownloadFailed where the hub does not answer, ModelNotFound where it has no such model, WeightsCorrupt and
    EngineUnavailable where its files are of no kind that is used."""
    info = _info(hub.repo)
    files = tuple(_chosen(hub, info, known))
    offer = Offer(
        name=name,
        origin=str(hub),
        licence=known.licence if known else _licence(info),
        size=sum(file.size for file in files),
        sha256=files[0].sha256 if len(files) == 1 else None,
    )
    return HubSource(offer, hub.repo, info.sha, files, bool(info.gated))


def _info(repo: str) -> ModelInfo:
    try:
        return HfApi().model_info(repo, files_metadata=True, timeout=_ANSWER)
    except HFValidationError as error:
        raise ModelNotFound(f"{repo} is no hub id, which looks like owner/name.") from error
    except OfflineModeIsEnabled as error:
        raise DownloadFailed("The hub is switched off here by HF_HUB_OFFLINE.") from error
    except HfHubHTTPError as error:
        if error.response.status_code in _ABSENT:
            raise ModelNotFound(f"The hub has no model {repo}, or it is private (then: hf auth login).") from error
        raise DownloadFailed(f"The hub answered {error.response.status_code} for {repo}.") from error
    except (httpx.HTTPError, OSError) as error:
        raise DownloadFailed("The hub cannot be reached (see HTTPS_PROXY, SSL_CERT_FILE).") from error


def _chosen(hub: Hub, info: ModelInfo, known: KnownModel | None) -> Iterator[RemoteFile]:
    if known and known.file:
        yield RemoteFile(hub.file or known.file.name, known.file.size, known.file.sha256)
        return
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    if hub.file and hub.file not in siblings:
        raise ModelNotFound(f"The hub's {hub.repo} has no file {hub.file}.")
    for path in choose([hub.file] if hub.file else list(siblings), f"The hub's {hub.repo}"):
        yield _remote(siblings[path])


def _remote(sibling: RepoSibling) -> RemoteFile:
    return RemoteFile(sibling.rfilename, sibling.size or 0, sibling.lfs.sha256 if sibling.lfs else None)


def _licence(info: ModelInfo) -> str:
    said = (tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:"))
    return next(said, "unknown: see its page at the hub")
