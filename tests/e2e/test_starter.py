"""A smoke test with the default model: prefix and suffix fit, on the command line and over the protocol."""

from __future__ import annotations

import json
import subprocess
from json import encoder
from pathlib import Path
from statistics import median

import pytest

from tests.e2e.stdio_client import SERVE, StdioClient, did_open, inline_completion, seconds_until_ready

pytestmark = pytest.mark.model("starter")

LINE = "        self.check_circular = check_circular"
STUMP = "        self.check"
REST = "_circular = check_circular"


@pytest.fixture
def cut(tmp_path: Path) -> tuple[Path, int]:
    """A copy of json/encoder.py in which the rest of a line is missing, and that line's index."""
    lines = Path(encoder.__file__).read_text(encoding="utf-8").split("\n")
    index = lines.index(LINE)
    lines[index] = STUMP
    path = tmp_path / "encoder.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path, index


def test_the_command_line_fits_prefix_and_suffix(cut: tuple[Path, int]) -> None:
    path, index = cut
    place = f"{path}:{index + 1}:{len(STUMP) + 1}"
    command = [SERVE[0], "complete", place, "--json", "--model", "starter"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome = json.loads(done.stdout)
    assert outcome["text"].split("\n")[0] == REST
    assert outcome["range"]["start"] == {"line": index + 1, "column": len(STUMP) + 1}
    assert (outcome["model"], outcome["drafter"]) == ("starter", "ngram")
    stats = outcome["stats"]
    assert stats["prompt_tokens"] > 0 < stats["generated_tokens"]
    assert stats["accepted"] <= stats["drafted"]


def test_the_server_fits_them_too(cut: tuple[Path, int], tmp_path: Path) -> None:
    path, index = cut
    config = tmp_path / "config.toml"
    config.write_text('model = "starter"\n')
    with StdioClient(SERVE, env={"GHOSTDRAFT_CONFIG": str(config)}) as client:
        client.initialize()
        client.write(did_open(path.as_uri(), path.read_text(encoding="utf-8")))
        wanted = inline_completion(path.as_uri(), index, len(STUMP))
        (item,) = client.result(client.ask("textDocument/inlineCompletion", wanted))["items"]
        assert item["insertText"].split("\n")[0] == REST
        assert client.exit() == 0


def test_it_is_ready_within_three_seconds_of_the_start(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('model = "starter"\n')
    assert median(seconds_until_ready({"GHOSTDRAFT_CONFIG": str(config)}) for _ in range(3)) < 3.0
