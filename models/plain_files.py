"""Files that can be read to their end: pipes, devices and loops of symbolic links are told before they are opened."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def check(path: Path) -> None:
    """Raises OSError, whose `strerror` is for the user, where `path` cannot be followed or is no file or folder."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is not a plain file but a loop of symbolic links") from error
        raise
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is not a plain file")
