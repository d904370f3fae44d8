"""What the disk has against it, in a sentence."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ghostdraft.models.types import ModelError, OutOfSpace


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """What is written inside goes to `place`. Raises OutOfSpace for a full disk, ModelError for any other OSError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutOfSpace(f"The disk of {place} is full. Free some space and try again.") from error
        raise ModelError(f"{error.filename or place}: {error.strerror or error}.") from error
