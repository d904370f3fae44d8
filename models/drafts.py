"""Where a target's drafts lie: those that were trained here, then those that came with the package.

Knows nothing of who runs them.
"""

from __future__ import annotations

from pathlib import Path

from ghostdraft.models.draft_file import ENDING, DraftKind
from ghostdraft.models.store import Store

SHIPPED = Path(__file__).parent / "weights"
FOLDER = "drafts"  # in the target's own


def find_draft(target: str, kind: DraftKind) -> Path | None:
    """`target`: a model of the store by its name."""
    places = (trained_path(target, kind), SHIPPED / target / f"{kind}{ENDING}")
    return next((path for path in places if path.exists()), None)


def trained_path(target: str, kind: DraftKind) -> Path:
    """Where one that is trained here is put."""
    return Store().folder(target) / FOLDER / f"{kind}{ENDING}"
