"""Ignore files: what git itself says of the same folders, and what `.ignore` adds."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ghostdraft.completion.ignoring import Rules, ignored, rules_above, rules_in

FILES = ("a.py", "b.py", "sub/a.py", "sub/b.txt", "sub/deep/a.py", "build/a.py", "sub/build/c.py")
names = st.sampled_from(["a.py", "b.txt", "*.py", "build", "sub", "deep", "**", "?.py", "[ab].py", "c*"])
lines = st.builds(
    "{}{}{}{}".format, st.sampled_from(["", "!"]), st.sampled_from(["", "/", "sub/", "**/"]), names,
    st.sampled_from(["", "/", "/*", " "]),
)  # fmt: skip
ignore_files = st.lists(lines, max_size=4).map("\n".join)


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def kept(folder: str, outer: tuple[Rules, ...]) -> Iterator[str]:
    """The files below that are not ignored."""
    rules = (*outer, *rules_in(folder))
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != ".git" and not ignored(rules, f"{entry.path}/"):
                yield from kept(entry.path, rules)
        elif not ignored(rules, entry.path):
            yield entry.path


def ours(root: Path) -> set[str]:
    return {os.path.relpath(path, root) for path in kept(str(root), rules_above(str(root)))}


def of_git(root: Path) -> set[str]:
    command = ("git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "-z")
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(command, capture_output=True, check=True, env=quiet)
    return set(filter(None, done.stdout.decode().split("\0")))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@settings(max_examples=40)
@given(ignore_files, ignore_files, ignore_files)
@example(outer="", inner="!a.py", exclude="sub/**")
@example(outer="", inner="", exclude="sub\n!sub/**")
@example(outer="*.py\n!sub/** ", inner="", exclude="")
def test_what_is_ignored_is_what_git_ignores(outer: str, inner: str, exclude: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        subprocess.run(("git", "init", "-q", str(root)), check=True)
        write(root, dict.fromkeys(FILES, "x"))
        write(root, {".gitignore": outer, "sub/.gitignore": inner, ".git/info/exclude": exclude})
        assert ours(root) == of_git(root)


def test_a_deeper_file_and_a_later_line_decide(tmp_path: Path) -> None:
    write(tmp_path, {".git/info/exclude": "", ".gitignore": "*.py\n!keep.py\n", "sub/.gitignore": "!a.py\n"})
    write(tmp_path, dict.fromkeys(("a.py", "keep.py", "sub/a.py", "sub/b.py"), "x"))
    assert {name for name in ours(tmp_path) if name.endswith(".py")} == {"keep.py", "sub/a.py"}


def test_ignore_comes_before_gitignore(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "a.py\n", ".ignore": "!a.py\nb.py\n", "a.py": "", "b.py": ""})
    assert {name for name in ours(tmp_path) if name.endswith(".py")} == {"a.py"}


def test_a_folder_inside_a_repository_obeys_what_stands_above_it(tmp_path: Path) -> None:
    write(tmp_path, {".git/info/exclude": "c.py\n", ".gitignore": "a.py\n/sub/b.py\n"})
    write(tmp_path, dict.fromkeys(("sub/a.py", "sub/b.py", "sub/c.py", "sub/d.py"), ""))
    assert ours(tmp_path / "sub") == {"d.py"}


def test_outside_of_a_repository_what_stands_above_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "a.py\n", "sub/a.py": ""})
    assert ours(tmp_path / "sub") == {"a.py"}


def test_lines_that_are_no_patterns_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"!\n\xff\xfe\n//\na.py\n[z-a].py\n")
    write(tmp_path, {"a.py": "", "b.py": ""})
    assert "a.py" not in ours(tmp_path)
    assert "b.py" in ours(tmp_path)
