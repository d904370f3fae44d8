"""Which paths of a workspace its own files say to ignore: `.gitignore` and `.ignore`, in every folder from the
repository's root on, and `.git/info/exclude`.

As git does, the deepest file that says something of a path decides, in it the last line that does, and nothing inside
an ignored folder is looked at; `.ignore` comes before `.gitignore`, as in ripgrep. Knows nothing of what is in files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".ignore")  # the later one decides first
MOST_IGNORE_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class Rules:
    """What one ignore file says of the paths below `folder`."""

    folder: str
    spec: GitIgnoreSpec

    def says(self, path: str) -> bool | None:
        """Whether `path`, a folder's with a slash at its end, is ignored; None: nothing of it."""
        return self.spec.check_file(path[len(self.folder) :].lstrip("/")).include


def ignored(rules: Sequence[Rules], path: str) -> bool:
    """By the rules of all folders above `path`, a folder's with a slash at its end; the outermost come first."""
    verdicts = (rule.says(path) for rule in reversed(rules))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def rules_in(folder: str) -> tuple[Rules, ...]:
    """What the ignore files in `folder` say."""
    return tuple(_read(folder, name) for name in IGNORE_FILES if os.path.isfile(os.path.join(folder, name)))


def rules_above(folder: str) -> tuple[Rules, ...]:
    """What the ignore files above `folder` say, if it lies in a repository, and that repository's own excludes."""
    above = [Path(folder), *Path(folder).parents]
    root = next((number for number, one in enumerate(above) if (one / ".git").exists()), None)
    if root is None:
        return ()
    outer = (rules for one in reversed(above[1 : root + 1]) for rules in rules_in(str(one)))
    return (_read(str(above[root]), ".git/info/exclude"), *outer)


def _read(folder: str, name: str) -> Rules:
    return Rules(folder, GitIgnoreSpec.from_lines(_lines(os.path.join(folder, name))))


def _lines(path: str) -> Iterator[str]:
    """Those that are patterns; none of a file that cannot be read."""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for raw in file.read(MOST_IGNORE_BYTES).splitlines():
            line = re.sub(r"/\*\* *$", "/**/*", raw)  # git: what is inside a folder, but not the folder
            with suppress(ValueError, re.error):
                GitIgnoreSpec.from_lines([line])
                yield line
