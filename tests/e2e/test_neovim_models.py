"""Ghost text of real models in a real Neovim."""

from __future__ import annotations

import json.encoder
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.neovim import Neovim

pytestmark = pytest.mark.editors

SERVER = [sys.executable, "-P", "-m", "ghostdraft.lsp_server", "serve", "--stdio"]
PATIENT = {"default": {"budget_ms": 600_000}}  # the machine may be busy with other things
PREFIX, _, SUFFIX = Path(json.encoder.__file__).read_text("utf-8").partition("_circular = check_circular\n")


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.model(name)) for name in ("tiny", "starter")])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def neovim(tmp_path: Path, model: str) -> Iterator[Neovim]:
    """Open at json/encoder.py, of which a line is cut short."""
    options = {"model": model, "languages": PATIENT}
    neovim = Neovim(tmp_path, SERVER, "encoder.py", f"{PREFIX[:-1]}\n{SUFFIX}", options=options)
    yield neovim
    neovim.close()


@pytest.mark.timeout(600)
def test_a_model_writes_into_a_file_of_the_standard_library(neovim: Neovim, model: str) -> None:
    neovim.wait(lambda: "ghostdraft: ready" in "\n".join(neovim.screen()), "the model", seconds=120)
    neovim.type(f":{PREFIX.count(chr(10)) + 1}")
    neovim.press("Enter")
    neovim.type("zzAk")
    neovim.wait(lambda: neovim.evaluate("require('ghostdraft.suggest').visible()") == "true", "ghost text", seconds=300)
    shown = text_rows(neovim)
    neovim.picture(f"neovim-{model}")
    if model == "starter":
        neovim.says("        self.check_circular = check_circular")
    neovim.press("Tab")
    neovim.wait(lambda: neovim.saved() != f"{PREFIX}\n{SUFFIX}", "the text")
    assert neovim.saved().startswith(PREFIX)
    assert neovim.saved().endswith(f"\n{SUFFIX}")
    assert text_rows(neovim)[: len(shown)] == shown


def text_rows(neovim: Neovim) -> list[str]:
    """The screen from the cursor's line on, which stands in its middle, without the lines at the bottom."""
    return [row.rstrip() for row in neovim.screen()[8:-2]]
