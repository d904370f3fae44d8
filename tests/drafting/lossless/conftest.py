"""Whatever the machine does, the same is drafted here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ghostdraft.completion import decode
from ghostdraft.drafting import draft_model, eagle
from ghostdraft.drafting.draft_length import DraftLength
from ghostdraft.drafting.types import FREE


@pytest.fixture(scope="module")
def hurried() -> Iterator[None]:
    """Windows slide every few tokens, and copies of short caches are made."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (draft_model, eagle):
            patch.setattr(module, "WINDOW", 24)
            patch.setattr(module, "SLIDE", 12)
        patch.setattr(decode, "WORTH_A_COPY", 6)
        yield


@pytest.fixture(scope="module", autouse=True)
def _timeless() -> Iterator[None]:
    """Drafters are asked in every step, and all that they say is judged, however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DraftLength, "asks", lambda _: True)
        patch.setattr(DraftLength, "price", FREE)
        patch.setattr(DraftLength, "worth", lambda _, draft, riding=0: draft)  # noqa: ARG005
        yield
