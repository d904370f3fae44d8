"""What a workspace to draft from costs: building it, its memory, a step of drafting, a completion meanwhile.

    python -m ghostdraft.benchmarks.datastore --megabytes 50

Files of this Python's standard library and packages are put in as those of a workspace are, then drafts are asked for
at places in them; each file that is asked about is excluded, and so is every one that shares a run of fifty tokens with
it. Last, the server's background work is done anew beside passes of the model, paused by nothing: the worst case. Times
of the datastore and of drafting are the processor's, those of passes the clock's.
"""

from __future__ import annotations

import random
import statistics
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil
import typer

from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.benchmarks.shingles import Shelf, shingles
from ghostdraft.completion.policy import Policy
from ghostdraft.completion.syntax import LANGUAGES_BY_SUFFIX
from ghostdraft.completion.workspace import Found, Stamp, read
from ghostdraft.drafting.corpus import CorpusDrafter
from ghostdraft.drafting.datastore import Datastore
from ghostdraft.drafting.draft_length import DraftLength
from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.costs import GUESS
from ghostdraft.models.load import Loaded, load
from ghostdraft.models.types import ModelError, Pass

FOLDERS = ("stdlib", "purelib")  # as sysconfig names them
PLACES = 30  # where drafts are asked for, each in a file of its own
STEPS = 64  # tokens at each
BEFORE = 2000  # code points of a prompt
PASSES = 100  # of one row each
COLUMNS = ("", "median", "95 %")
SLICE = REST = 0.005  # seconds, as in the server

Texts = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds."""

    median: float
    most: float  # of 95 %

    @staticmethod
    def of(seconds: Sequence[float]) -> Spread:
        return Spread(statistics.median(seconds), float(np.quantile(seconds, 0.95)))

    def as_json(self) -> dict[str, float]:
        return {"median_us": round(1e6 * self.median, 1), "p95_us": round(1e6 * self.most, 1)}


def texts_of(folders: Iterable[Path], most: int) -> dict[str, bytes]:
    """By path, the texts of files that would be put in; as many as have `most` bytes together."""
    texts, room = dict[str, bytes](), most
    for found in _found(folders):
        text = read(found)
        if text is not None and found.path not in texts:
            texts[found.path] = text
            room -= len(text)
        if room <= 0:
            break
    return texts


def _found(folders: Iterable[Path]) -> Iterator[Found]:
    """All of a known language: a Python's own files may well be ignored by a repository around it."""
    for path in (path for folder in folders for path in sorted(folder.rglob("*.*"))):
        if path.suffix[1:].lower() in LANGUAGES_BY_SUFFIX and path.is_file():
            yield Found(str(path), Stamp(0, 0), Policy())


class Duplicates:
    """Tells which texts share a run of tokens. Takes its time."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._runs = {key: shingles(text.decode()) for key, text in texts.items()}

    def of(self, key: str) -> list[str]:
        """The keys of those that share one with this, its own among them."""
        shelf = Shelf([self._texts[key].decode()])
        return [other for other, runs in self._runs.items() if shelf.shares_with(runs)]


def built(texts: Texts) -> tuple[Datastore, dict[str, float]]:
    """The datastore, and what it took; seconds are the processor's."""
    datastore, process = Datastore(), psutil.Process()
    before, slowest, started = process.memory_info().rss, 0.0, time.thread_time()
    for key, text in texts.items():
        one = time.thread_time()
        datastore.put(key, text)
        slowest = max(slowest, time.thread_time() - one)
    seconds, held = time.thread_time() - started, datastore.held / 1e6
    return datastore, {
        "files": len(datastore.keys()),
        "megabytes": round(held, 1),
        "megabytes_per_second": round(held / seconds, 1),
        "slowest_file_ms": round(1e3 * slowest, 1),
        "resident_megabytes": round((process.memory_info().rss - before) / 1e6, 1),
    }


def drafted(datastore: Datastore, texts: Texts, loaded: Loaded, bar: Bar) -> dict[str, Any]:
    """Steps as a model would take them that writes what stands in a file, from its middle on."""
    drafter, nothing = CorpusDrafter(datastore, loaded.tokenizer, loaded.spec), Pass(np.zeros((0, 0), np.float32))
    price, every, busy = DraftLength(loaded.costs.read() or GUESS).price, list[float](), list[float]()
    tokens = 0
    keys, duplicates = random.Random(0).sample(sorted(texts), min(PLACES, len(texts))), Duplicates(texts)
    for done, key in enumerate(keys):
        bar.show(done, len(keys), "places")
        datastore.exclude(duplicates.of(key))
        text = texts[key].decode()
        written = loaded.tokenizer.encode(text[len(text) // 2 :][:1000])[:STEPS]
        drafter.begin(loaded.tokenizer.encode(text[: len(text) // 2][-BEFORE:]), [])
        while written:
            started = time.thread_time()
            draft = drafter.propose(16, price=price)
            every.append(time.thread_time() - started)
            busy += every[-1:] if len(draft) else []
            path = accepted_path(draft, written[:-1])
            drafter.observe(draft, Verdict(path, written[len(path)]), nothing)
            tokens += len(path) + 1
            written = written[len(path) + 1 :]
    datastore.exclude([])
    steps = {"step": Spread.of(every).as_json(), "step_with_a_draft": Spread.of(busy or every).as_json()}
    return {**steps, "with_a_draft": round(len(busy) / len(every), 3), "tokens_per_step": round(tokens / len(every), 3)}


def accepted_path(draft: Draft, tokens: Sequence[int]) -> tuple[int, ...]:
    """The longest path of the draft's that says these tokens."""
    path, nodes = list[int](), {node: at for at, node in enumerate(zip(draft.parents, draft.token_ids, strict=True))}
    for token in tokens:
        node = nodes.get((path[-1] if path else -1, token))
        if node is None:
            break
        path.append(node)
    return tuple(path)


def passes(loaded: Loaded) -> Spread:
    """Of one row each, as a step without a draft."""
    seconds = []
    loaded.model.truncate(0)
    for _ in range(PASSES):
        started = time.perf_counter()
        loaded.model.forward([1], [0])
        loaded.model.keep([0])
        seconds.append(time.perf_counter() - started)
    return Spread.of(seconds)


def beside(work: Callable[[], object], measured: Callable[[], Spread]) -> Spread:
    """What is measured while another thread does this again and again, in the server's slices."""
    ended = threading.Event()

    def slices() -> None:
        end = time.monotonic() + SLICE
        while not ended.is_set():
            work()
            if time.monotonic() >= end:
                time.sleep(REST)
                end = time.monotonic() + SLICE

    thread = threading.Thread(target=slices)
    thread.start()
    try:
        return measured()
    finally:
        ended.set()
        thread.join()


def report(model: str, megabytes: int) -> dict[str, Any]:
    """Raises ModelError."""
    folders = [Path(sysconfig.get_path(name)) for name in FOLDERS]
    loaded = load(model)
    texts = texts_of(folders, megabytes * 1_000_000)
    datastore, build = built(texts)
    with Bar("datastore") as bar:
        drafts = drafted(datastore, texts, loaded, bar)
    again = cycle(islice(texts.items(), 100))
    alone = passes(loaded)
    meanwhile = beside(lambda: datastore.put(*next(again)), partial(passes, loaded))
    delay = {"alone": alone.as_json(), "while_indexing": meanwhile.as_json()}
    return {"model": model, "build": build, **drafts, "pass": delay, "machine": machine_line(loaded.model)}


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    named = {
        "a step of drafting, µs": result["step"],
        "one that finds something, µs": result["step_with_a_draft"],
        "a pass of the model, µs": result["pass"]["alone"],
        "one while files are put in, µs": result["pass"]["while_indexing"],
    }
    for name, spread in named.items():
        yield name, f"{spread['median_us']:,.0f}", f"{spread['p95_us']:,.0f}"


def show(result: Mapping[str, Any]) -> None:
    build = result["build"]
    note = (
        f"{build['megabytes']} MB in {build['files']:,} files: {build['megabytes_per_second']} MB per second of the "
        f"processor, the slowest file {build['slowest_file_ms']} ms; {build['resident_megabytes']} MB of memory. "
        f"{result['with_a_draft']:.0%} of the steps find something; {result['tokens_per_step']} tokens per step."
    )
    print_table(f"Drafting from a workspace, {result['model']}", COLUMNS, rows(result), [note, result["machine"]])


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "tiny",
    megabytes: Annotated[int, typer.Option(min=1, help="How much text, at most.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Weigh and time the datastore of a workspace."""
    deliver(partial(report, model, megabytes), show, as_json, ModelError)


if __name__ == "__main__":
    typer.run(main)
