"""The real `serve` with a fake engine, for tests of everything around the engine. Its first argument says which."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ghostdraft.completion.types import Budget, Cancel, Completion, Snapshot
from ghostdraft.lsp_server.host import Engine
from ghostdraft.lsp_server.serving import serve_stdio
from ghostdraft.lsp_server.texts import Texts
from tests.fakes import FakeEngine


class Printing(FakeEngine):
    """A library that prints, from Python and from C."""

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:
        print("printed by a library", flush=True)  # noqa: T201
        os.write(1, b"written by C\n")
        return super().complete(snapshot, budget, cancel)


class Failing(FakeEngine):
    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:  # noqa: ARG002
        raise RuntimeError(snapshot.text)


class Deaf(FakeEngine):
    """Computes on whatever happens."""

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:  # noqa: ARG002
        time.sleep(600)
        raise AssertionError


ENGINES = {"printing": Printing, "failing": Failing, "deaf": Deaf, "echo": FakeEngine}


def load(_texts: Texts, _model: str, _drafter: str, _context: int) -> Engine:
    engine: Engine = ENGINES[sys.argv[1]]()
    if isinstance(engine, FakeEngine):
        engine.gate.set()
    return engine


def pull_for_ever(_model: str, _watch: object) -> None:
    time.sleep(600)


if __name__ == "__main__":
    serve_stdio("debug", load, pull_for_ever)
