"""The source files of the user's workspace, kept in a datastore to draft from: which of them, and what changed.

What the policy refuses, what the workspace ignores, what is hidden, binary, generated, minified or long is never put
in. Works in small steps; knows nothing of when it may, nor of threads.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from ghostdraft.completion.ignoring import ignored, rules_above, rules_in
from ghostdraft.completion.policy import Policy
from ghostdraft.completion.prompt import for_model
from ghostdraft.completion.syntax import LANGUAGES_BY_SUFFIX, language_of
from ghostdraft.completion.types import Snapshot
from ghostdraft.drafting.datastore import Datastore

MOST_BYTES = 262_144  # of a file; takes some 5 ms to put in
MOST_FILES = 50_000
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
class Stamp:
    """What tells that a file changed."""

    modified: int  # nanoseconds
    size: int


@dataclass(frozen=True, slots=True)
class Found:
    """A file that may be put in, and the policy for it."""

    path: str
    stamp: Stamp
    policy: Policy


class Workspace:
    """Keys of the datastore are paths without symbolic links."""

    def __init__(self, datastore: Datastore, policy_of: PolicyOf) -> None:
        self._datastore = datastore
        self._policy_of = policy_of
        self._stamps: dict[str, Stamp] = {}  # of the files that were looked at

    def scan(self, folders: Collection[Path]) -> Iterator[None]:
        """Brings the datastore to what now is in `folders`, a file or a folder in each step."""
        gone = set(self._stamps)
        for found in self._walk(folders):
            if found is not None:
                gone.discard(found.path)
                self._look(found)
            yield
        for path in gone:
            del self._stamps[path]
            self._datastore.remove(path)
            yield

    def exclude(self, paths: Collection[Path]) -> None:
        """From now on nothing is drafted from these files."""
        self._datastore.exclude([key_of(path) for path in paths])

    def _walk(self, folders: Collection[Path]) -> Iterator[Found | None]:
        """None for each folder, once it is read."""
        room = MOST_FILES
        for folder in dict.fromkeys(map(key_of, folders)):
            for found in walk(folder, self._policy_of):
                room -= found is not None
                if room < 0:
                    return
                yield found

    def _look(self, found: Found) -> None:
        if self._stamps.get(found.path) == found.stamp:
            return
        self._stamps[found.path] = found.stamp
        text = read(found)
        if text is None:
            self._datastore.remove(found.path)
        else:
            self._datastore.put(found.path, text)


def key_of(path: Path) -> str:
    return os.path.realpath(path)


def root_of(path: Path) -> Path:
    """The nearest folder above the file that is a repository's root, else its own folder."""
    return next((folder for folder in path.parents if (folder / ".git").exists()), path.parent)


def walk(root: str, policy_of: PolicyOf) -> Iterator[Found | None]:
    """The files that may be put in, those near the root first; None for each folder. No symbolic link is followed."""
    waiting = deque([(root, rules_above(root))])
    while waiting:
        folder, outer = waiting.popleft()
        rules, policy = (*outer, *rules_in(folder)), policy_of(Path(folder))
        yield None
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                if _is_own(entry) and not ignored(rules, f"{entry.path}/"):
                    waiting.append((entry.path, rules))
            elif _is_source(entry) and not ignored(rules, entry.path) and (stamp := _stamp(entry)):
                yield Found(entry.path, stamp, policy)


def read(found: Found) -> bytes | None:
    """The file's text in UTF-8 with line feeds; None of one that is not to be put in."""
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


def _stamp(entry: os.DirEntry[str]) -> Stamp | None:
    """None of a file that is too long, or no longer there."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return Stamp(status.st_mtime_ns, status.st_size) if 0 < status.st_size <= MOST_BYTES else None


def _is_generated(content: bytes) -> bool:
    lines = content.split(b"\n")
    long = max(map(len, lines)) > LONGEST_LINE or len(content) > MEAN_LINE * len(lines)
    return long or GENERATED.search(content[:PROBE]) is not None
