"""The language server as it is, and notes of what its engine did for each request and read ahead, for benches that
type.

`python -P -m ghostdraft.benchmarks.replay_server NOTES` serves on standard input and output; the file NOTES gets a
line of JSON when the engine is done with a request, before it is answered, and when it has read ahead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO, cast

from ghostdraft.benchmarks.replay import Note
from ghostdraft.completion.engine import Engine
from ghostdraft.completion.types import Budget, Cancel, Completion, Snapshot
from ghostdraft.lsp_server.host import load_engine
from ghostdraft.lsp_server.serving import serve_stdio
from ghostdraft.models.types import Interrupted, LanguageModel, Pass


class CountingModel:
    """The model, and how many rows it computed; `lost` stood in interrupted passes that no later pass went on with."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._paused: tuple[int, ...] = ()
        self.rows = 0
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, token_ids: Sequence[int], *arguments: Any) -> Pass:
        if self._paused != tuple(token_ids):
            self.lost += len(self._paused)
        self._paused = ()
        try:
            found = self._model.forward(token_ids, *arguments)
        except Interrupted:
            self._paused = tuple(token_ids)
            raise
        self.rows += len(token_ids)
        return found


class NotingEngine:
    """The engine, and what it did for requests and read ahead; rows that an interrupted pass lost are noted with what
    comes next."""

    def __init__(self, engine: Engine, notes: TextIO) -> None:
        self.note = engine.note
        self.on_gpu = engine.on_gpu
        self._engine = engine
        self._notes = notes
        self._model = CountingModel(engine.decoder.model)
        engine.decoder.model = cast(LanguageModel, self._model)

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:
        completion = self._engine.complete(snapshot, budget, cancel)
        stats = completion.stats
        computed, model_ms = stats.read_tokens + stats.generated_tokens, stats.prefill_ms + stats.decode_ms
        self._write(Note(snapshot.version, stats.prompt_tokens, stats.reused_tokens, computed, model_ms))
        return completion

    def read_ahead(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> None:
        before = self._model.rows
        self._engine.read_ahead(snapshot, budget, cancel)
        read = self._model.rows - before
        if read:
            self._write(Note(snapshot.version, 0, self._model.length - read, read, ahead=True))

    def _write(self, note: Note) -> None:
        whole = replace(note, computed=note.computed + self._model.lost)
        self._model.lost = 0
        self._notes.write(json.dumps(asdict(whole)) + "\n")
        self._notes.flush()

    @property
    def measured(self) -> bool:
        return self._engine.measured

    def measure(self, cancel: Cancel) -> None:
        self._engine.measure(cancel)

    def interrupt(self) -> None:
        self._engine.interrupt()

    def close(self) -> None:
        self._engine.close()


def main() -> None:
    with Path(sys.argv[1]).open("a", encoding="utf-8") as notes:
        serve_stdio(load=lambda *wanted: NotingEngine(cast(Engine, load_engine(*wanted)), notes))


if __name__ == "__main__":
    main()
