"""`ghostdraft complete`: places in files, bad input, what is printed; with a fake engine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ghostdraft.completion.types import Budget, Completion, DecodeStats, Snapshot, StopReason
from ghostdraft.lsp_server import complete as command
from ghostdraft.lsp_server import complete_view
from ghostdraft.lsp_server.commands import app
from ghostdraft.lsp_server.texts import Texts
from ghostdraft.models.types import ModelNotFound, WeightsCorrupt

TEXT = "import numpy\n\n\ndef f(😀):\n    return numpy.array()\n# end\n"


class Answering:
    """Gives `text` for the cursor, over the rest of the line where `whole_line`."""

    def __init__(self, text: str, whole_line: bool = False) -> None:
        self.text = text
        self.whole_line = whole_line
        self.seen: list[tuple[Snapshot, Budget]] = []

    def complete(self, snapshot: Snapshot, budget: Budget, _cancel: object) -> Completion:
        self.seen.append((snapshot, budget))
        end = snapshot.text.find("\n", snapshot.cursor) if self.whole_line else snapshot.cursor
        stats = DecodeStats(prompt_tokens=5, generated_tokens=2, kept_tokens=2, steps=2, drafted=1, accepted=1)
        return Completion(self.text, snapshot.cursor, end, StopReason.LINE, stats, self.text)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GHOSTDRAFT_CONFIG", str(tmp_path / "config.toml"))
    path = tmp_path / "main.py"
    path.write_text(TEXT, encoding="utf-8")
    return path


def run(monkeypatch: pytest.MonkeyPatch, engine: object, *arguments: str) -> Result:
    monkeypatch.setattr(command, "load_engine", lambda *_: engine)
    return CliRunner().invoke(app, ["complete", *arguments])


def test_json(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Answering("[1, 2])", whole_line=True)
    result = run(
        monkeypatch, engine, f"{file}:5:24", "--json", "--model", "tiny", "--drafter", "none", "--max-tokens", "9"
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "text": "[1, 2])",
        "range": {"start": {"line": 5, "column": 24}, "end": {"line": 5, "column": 25}},
        "stop_reason": "line",
        "model": "tiny",
        "drafter": "none",
        "stats": {
            "prompt_tokens": 5,
            "reused_tokens": 0,
            "generated_tokens": 2,
            "steps": 2,
            "undrafted_steps": 0,
            "drafted": 1,
            "accepted": 1,
            "prefill_ms": 0.0,
            "decode_ms": 0.0,
            "draft_ms": 0.0,
            "total_ms": 0.0,
        },
    }
    ((snapshot, budget),) = engine.seen
    assert snapshot.text[: snapshot.cursor].endswith("numpy.array(")
    assert snapshot.language_id == "python"
    assert budget == Budget(9, None)


def test_columns_are_code_points_and_the_end_of_a_line_is_a_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Answering("x")
    assert run(monkeypatch, engine, f"{file}:4:8").exit_code == 0
    assert run(monkeypatch, engine, f"{file}:4:10").exit_code == 0
    assert run(monkeypatch, engine, f"{file}:7:1").exit_code == 0
    texts = [snapshot.text[: snapshot.cursor] for snapshot, _ in engine.seen]
    assert [text.rpartition("\n")[2] for text in texts] == ["def f(😀", "def f(😀):", ""]


def test_without_colours_the_ghost_text_is_marked_among_its_lines(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Answering("[\n        1\n    ])", whole_line=True), f"{file}:5:24")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[3] == "    5     return numpy.array(«["
    assert lines[4].strip() == "1"
    assert lines[5].endswith("    ]»)")
    assert lines[6] == "    6 # end"
    assert "starter, ngram: 2 tokens" in lines[-1]


def test_tabs_stand_in_columns_where_ghost_text_begins_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("\tfirst\n\n\t\tthird\n", encoding="utf-8")
    lines = run(monkeypatch, Answering("\tsecond"), f"{file}:2:1").stdout.splitlines()
    assert lines[:3] == ["    1     first", "    2 «   second»", "    3         third"]


def test_of_long_lines_what_stands_near_the_cursor_is_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("#" + "a" * 9999 + "\n" + "b" * 5000 + "(" + "c" * 5000 + ")\n", encoding="utf-8")
    lines = run(monkeypatch, Answering("x"), f"{file}:2:5002").stdout.splitlines()
    assert [len(line) < 500 for line in lines] == [True] * 3
    assert "b(«x»c" in lines[1]


def test_the_settings_say_how_much_may_be_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file.parent / "config.toml").write_text("[languages.python]\nmax_tokens = 11\nbudget_ms = 1\n")
    engine = Answering("x")
    run(monkeypatch, engine, f"{file}:1:1")
    assert engine.seen[0][1] == Budget(11, None)


def test_the_workspace_may_tighten_as_in_an_editor(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file.parent / ".ghostdraft.toml").write_text('model = "evil"\n[languages.python]\nmax_tokens = 3\n')
    engine = Answering("x")
    below = file.parent / "package" / "main.py"
    below.parent.mkdir()
    below.write_text(TEXT, encoding="utf-8")
    for place in (file, below):
        result = run(monkeypatch, engine, f"{place}:1:1", "--json")
        assert json.loads(result.stdout)["model"] == "starter"
        assert "`model`" in result.stderr
    assert [budget for _, budget in engine.seen] == [Budget(3, None)] * 2
    (file.parent / ".ghostdraft.toml").write_text('exclude = ["main.py"]\n')
    assert "exclude" in run(monkeypatch, engine, f"{below}:1:1").stderr
    assert len(engine.seen) == 2


def test_where_completion_is_off_json_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = file.rename(file.parent / ".env")
    result = run(monkeypatch, Answering("x"), f"{secret}:1:8", "--json")
    assert (result.exit_code, json.loads(result.stdout)["stop_reason"]) == (2, "off")
    assert "secrets" in result.stderr


def test_an_empty_file_has_one_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("")
    assert run(monkeypatch, Answering("x"), f"{file}:1:1").exit_code == 0
    assert run(monkeypatch, Answering("x"), f"{file}:1:2").exit_code == 2


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("{file}", "PATH:LINE:COLUMN"),
        ("{file}:5", "PATH:LINE:COLUMN"),
        ("{file}:five:1", "PATH:LINE:COLUMN"),
        ("{file}:²:1", "PATH:LINE:COLUMN"),
        (":1:1", "PATH:LINE:COLUMN"),
        ("{file}:0:1", "count from 1"),
        ("{file}:8:1", "has 7 lines"),
        ("{file}:6:7", "ends at column 6"),
        ("{file}.missing:1:1", "cannot be read: No such file or directory"),
        ("{folder}:1:1", "cannot be read: Is a directory"),
    ],
)
def test_bad_places_are_one_sentence(file: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str) -> None:
    result = run(monkeypatch, Answering("x"), place.format(file=file, folder=file.parent))
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.platform
def test_pipes_devices_and_loops_are_not_opened(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(file.with_name("pipe.py"))
    file.with_name("loop.py").symlink_to("loop.py")
    for path in ("/dev/zero", file.with_name("pipe.py"), file.with_name("loop.py")):
        result = run(monkeypatch, Answering("x"), f"{path}:1:1")
        assert result.exit_code == 2
        assert "is not a plain file" in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("content", "said"), [(b"\x7fELF\0\0", "binary"), (b"caf\xe9\n", "not UTF-8 text (byte 3)")])
def test_files_that_are_no_text(file: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, said: str) -> None:
    file.write_bytes(content)
    result = run(monkeypatch, Answering("x"), f"{file}:1:1")
    assert result.exit_code == 2
    assert said in result.stderr


def test_secret_files_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = file.with_name(".env")
    secret.write_text("TOKEN=1")
    result = run(monkeypatch, Answering("x"), f"{secret}:1:1")
    assert result.exit_code == 2
    assert "secrets" in result.stderr


def test_a_missing_model_says_how_to_get_it_and_is_pulled_on_demand(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[str] = []

    def load(_texts: Texts, model: str, _drafter: str, _context: int) -> Answering:
        if not here:
            raise ModelNotFound(f"{model} is not on this disk yet. Fetch it: ghostdraft models pull {model}")
        return Answering("pulled")

    monkeypatch.setattr(command, "load_engine", load)
    monkeypatch.setattr(command, "_pull", here.append)
    result = CliRunner().invoke(app, ["complete", f"{file}:1:1"])
    assert result.exit_code == 2
    assert "ghostdraft models pull starter" in result.stderr
    assert "--pull" in result.stderr
    result = CliRunner().invoke(app, ["complete", f"{file}:1:1", "--pull", "--json"])
    assert json.loads(result.stdout)["text"] == "pulled"
    assert here == ["starter"]


def test_damaged_weights_are_one_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_texts: Texts, _model: str, _drafter: str, _context: int) -> Answering:
        raise WeightsCorrupt("The weights are cut off. Fetch them again.")

    monkeypatch.setattr(command, "load_engine", load)
    result = CliRunner().invoke(app, ["complete", f"{file}:1:1"])
    assert (result.exit_code, result.stderr) == (2, "ghostdraft: The weights are cut off. Fetch them again.\n")


def test_bad_settings_are_told_and_do_not_stop_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file.parent / "config.toml").write_text("max_tokens = 'many'\n")
    result = run(monkeypatch, Answering("x"), f"{file}:1:1", "--json")
    assert result.exit_code == 0
    assert "`max_tokens` must be a whole number" in result.stderr
    assert json.loads(result.stdout)["text"] == "x"


@pytest.mark.parametrize(
    ("text", "replaced", "pieces"),
    [
        ("[1])", ")", [("[1]", True), (")", False)]),
        ("a)b)", "))", [("a", True), (")", False), ("b", True), (")", False)]),
        ("x", "", [("x", True)]),
        ("", "", []),
    ],
)
def test_what_stood_there_before_is_not_ghost_text(text: str, replaced: str, pieces: list[tuple[str, bool]]) -> None:
    assert complete_view._pieces(text, replaced) == pieces


def test_a_drafter_that_copies_gets_the_other_files_of_the_repository(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[Texts]()

    def load(texts: Texts, *_wanted: object) -> Answering:
        given.append(texts)
        return Answering("x")

    (file.parent / ".git").mkdir()
    (file.parent / "sub").mkdir()
    (file.parent / "sub" / "other.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(command, "load_engine", load)
    for drafter in ("corpus", "ngram"):
        assert CliRunner().invoke(app, ["complete", f"{file}:1:1", "--drafter", drafter]).exit_code == 0
    copied, plain = (texts.datastore() for texts in given)
    keys = {key: copied.get(key) for key in copied.keys()}  # noqa: SIM118
    assert sorted(Path(key).name for key in keys) == ["main.py", "other.py"]
    (place,) = copied.places(b"    return nump")
    assert Path(str(place.shelf.key_of(place.at))).name == "other.py"
    assert not plain.keys()
