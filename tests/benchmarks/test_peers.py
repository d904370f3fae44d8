"""The bench of peers from end to end, with stand-ins for all but our engine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ghostdraft.benchmarks import contenders, page, peer_field, peers
from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.benchmarks.llama_server import MODES
from tests.benchmarks.peer_stand_ins import LIBRARY, LLAMA, bindings, environment, program

SILENT = {"count": 3, "reading": {"p50": 5.0, "most": 9.0}, "decoding": {"p50": 1.0, "most": 2.0}}
TEXT = "import json\n\n\ndef save(path, everything):\n    "


@pytest.mark.model("tiny")
def test_all_peers_that_are_here_have_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bindings(tmp_path, LIBRARY)
    build = SimpleNamespace(server=program(tmp_path, LLAMA), environment=environment(tmp_path), about="a stand-in")
    monkeypatch.setattr(peers.llama_build, "native", lambda: build)
    monkeypatch.setattr(peer_field, "files", lambda _name: (tmp_path / "file.gguf", tmp_path / "q8.gguf"))
    monkeypatch.setattr(peers, "listed_cursors", lambda _count: ([Cursor("a.py", "python", TEXT, len(TEXT))], "hash"))
    monkeypatch.setattr(peers.peer_cancel, "measure", lambda _served, _prompt: SILENT)
    monkeypatch.setattr(contenders, "installed", lambda *_packages: False)

    result = peers.report("tiny", 1, 1, None)

    rows = {row["name"]: row for row in result["rows"]}
    assert list(rows) == ["ghostdraft, plain", peers.OURS, *(f"llama.cpp, {mode}" for mode in MODES)]
    assert {row["variant"] for name, row in rows.items() if name.startswith("llama")} == {"Q8_0"}
    assert rows["llama.cpp, plain"]["tokens_per_second"] == pytest.approx(200.0)
    assert rows["llama.cpp, ngram-mod"]["tokens_per_second"] == pytest.approx(400.0)
    assert result["notes"] == ["a stand-in", contenders.NO_XLLAMACPP, contenders.NO_TRANSFORMERS]
    assert result["tokens"] > 1
    assert len(list(page._peers(result))) == len(rows)
    peers.show(result)
    assert result["best_llama_cpp"] in set(rows) - {"llama.cpp, plain"}
    assert "after 5 ms (at most 9) while it reads" in capsys.readouterr().out.replace("\n", " ")
