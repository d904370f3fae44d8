"""The source files of the user's workspace: which of them may be read.

What the policy refuses, what the workspace ignores, what is hidden, binary, generated, minified or long is not.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ghostdraft.completion.ignoring import ignored, rules_above, rules_in
from ghostdraft.completion.policy import Policy
from ghostdraft.completion.prompt import for_model
from ghostdraft.completion.syntax import LANGUAGES_BY_SUFFIX, language_of
from ghostdraft.completion.types import Snapshot

MOST_BYTES = 262_144  # of a file
LONGEST_LINE, MEAN_LINE = 2000, 200  # bytes; minified code has longer ones
FOREIGN_FOLDERS = {"node_modules", "__pycache__", "site-packages", "vendor", "third_party", "venv", "target"}
FOREIGN_FILES = re.compile(
    r"\.min\.\w+$|-lock\.|\.lock\.|_pb2(_grpc)?\.pyi?$|\.pb\.(go|cc|h)$|\.g\.cs$|\.designer\.cs$"
)
GENERATED = re.compile(rb"@generated|DO NOT (EDIT|MODIFY)|[Gg]enerated by|[Aa]uto-?generated|automatically generated")
PROBE = 1024  # bytes at the start that may say so

PolicyOf = Callable[[Path], Policy]
"""What holds for the files in a folder."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that may be read, and the policy for it."""

    path: str
    policy: Policy


def walk(root: str, policy_of: PolicyOf) -> Iterator[Found | None]:
    """The files that may be read, those near the root first; None for each folder. No symbolic link is followed."""
    waiting = deque([(root, rules_above(root))])
    while waiting:
        folder, outer = waiting.popleft()
        rules, policy = (*outer, *rules_in(folder)), policy_of(Path(folder))
        yield None
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                if _is_own(entry) and not ignored(rules, f"{entry.path}/"):
                    waiting.append((entry.path, rules))
            elif _is_source(entry) and not ignored(rules, entry.path):
                yield Found(entry.path, policy)


def read(found: Found) -> bytes | None:
    """The file's text in UTF-8 with line feeds; None of one that is not to be read."""
    try:
        with open(found.path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    snapshot = Snapshot(Path(found.path).as_uri(), 0, language_of(found.path), text, 0)
    if len(content) > MOST_BYTES or _is_generated(content) or found.policy.refusal(snapshot):
        return None
    return for_model(text).encode()


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """In the order of their names; none of a folder that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_own(folder: os.DirEntry[str]) -> bool:
    """Whether it is no tool's and holds no other people's code."""
    foreign = folder.name.startswith(".") or folder.name in FOREIGN_FOLDERS
    return not foreign and not os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))


def _is_source(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    known = not name.startswith(".") and name.rpartition(".")[2].lower() in LANGUAGES_BY_SUFFIX
    return known and entry.is_file(follow_symlinks=False) and not FOREIGN_FILES.search(name.lower())


def _is_generated(content: bytes) -> bool:
    lines = content.split(b"\n")
    long = max(map(len, lines)) > LONGEST_LINE or len(content) > MEAN_LINE * len(lines)
    return long or GENERATED.search(content[:PROBE]) is not None
