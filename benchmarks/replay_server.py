"""The language server as it is, and a note of what its engine did for each request, for the replay of typing.

`python -P -m ghostdraft.benchmarks.replay_server NOTES` serves on standard input and output; the file NOTES gets a
line of JSON when the engine is done with a request, before it is answered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TextIO

from ghostdraft.completion.types import Budget, Cancel, Completion, Snapshot
from ghostdraft.lsp_server.host import Engine, load_engine
from ghostdraft.lsp_server.serving import serve_stdio


class Noting:
    """An engine that writes down its work."""

    def __init__(self, engine: Engine, notes: TextIO) -> None:
        self._engine = engine
        self._notes = notes

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:
        completion = self._engine.complete(snapshot, budget, cancel)
        stats = completion.stats
        note = {
            "version": snapshot.version,
            "prompt": stats.prompt_tokens,
            "reused": stats.reused_tokens,
            "computed": stats.read_tokens + stats.generated_tokens,
        }
        self._notes.write(json.dumps(note) + "\n")
        self._notes.flush()
        return completion

    def interrupt(self) -> None:
        self._engine.interrupt()


def main() -> None:
    with Path(sys.argv[1]).open("a", encoding="utf-8") as notes:
        serve_stdio(load=lambda model, drafter: Noting(load_engine(model, drafter), notes))


if __name__ == "__main__":
    main()
