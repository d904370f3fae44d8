"""The bench of the datastore: what it takes, what it leaves out, what it counts as accepted."""

from __future__ import annotations

import threading
from pathlib import Path

from ghostdraft.benchmarks.datastore import Duplicates, Spread, accepted_path, beside, built, texts_of
from ghostdraft.drafting.types import Draft


def test_texts_up_to_a_size(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "sub/c.py", "d.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    assert [Path(path).name for path in texts_of([tmp_path], 10)] == ["a.py", "b.py"]
    assert [Path(path).name for path in texts_of([tmp_path, tmp_path], 1000)] == ["a.py", "b.py", "c.py"]


def test_files_that_share_a_run_of_tokens_are_duplicates() -> None:
    run = " ".join(f"word{number}" for number in range(60))
    texts = {"a": f"x {run}".encode(), "b": f"{run} y".encode(), "c": b"other words here"}
    assert Duplicates(texts).of("a") == ["a", "b"]
    assert Duplicates(texts).of("c") == ["c"]


def test_what_is_built_is_weighed() -> None:
    datastore, build = built({"a": b"x = 1\n", "b": b"y = 2\n"})
    assert datastore.keys() == {"a", "b"}
    assert build["files"] == 2


def test_the_longest_path_that_says_the_tokens_is_accepted() -> None:
    draft = Draft((5, 6, 7, 8), (-1, -1, 1, 2))
    assert accepted_path(draft, (6, 7, 9)) == (1, 2)
    assert accepted_path(draft, (7,)) == ()


def test_work_goes_on_beside_what_is_measured() -> None:
    done = threading.Event()
    assert beside(done.set, lambda: Spread.of([float(done.wait(5))])) == Spread(1, 1)
