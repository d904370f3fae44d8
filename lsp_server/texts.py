"""What this process drafts from: made when somebody wants it, as the arrays take a moment to import."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ghostdraft.drafting.datastore import Datastore


class Texts:
    """The datastore of this process, once somebody wants it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._datastore: Datastore | None = None

    def datastore(self) -> Datastore:
        """Takes a moment the first time."""
        from ghostdraft.drafting.datastore import Datastore

        with self._lock:
            self._datastore = self._datastore or Datastore()
            return self._datastore
