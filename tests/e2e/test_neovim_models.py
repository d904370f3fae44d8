"""Ghost text of real models in a real Neovim, on the screen and then in the file."""

from __future__ import annotations

import json.encoder
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.neovim import Neovim

pytestmark = pytest.mark.editors

SERVER = [sys.executable, "-P", "-m", "ghostdraft.lsp_server", "serve", "--stdio"]
PATIENT = {"default": {"budget_ms": 600_000}}  # the machine may be busy with other things
LINE = "self.check_circular = check_circular"
ENCODER = Path(json.encoder.__file__).read_text("utf-8").replace(LINE, "self.check<cursor>")
AVERAGES = (Path(__file__).parents[1] / "data" / "averages.py.txt").read_text("utf-8")

Start = Callable[[str, str], Neovim]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.model(name)) for name in ("tiny", "starter")])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(tmp_path: Path, model: str) -> Iterator[Start]:
    """Opens a file whose <cursor> is left out."""
    opened: list[Neovim] = []

    def start(name: str, text: str) -> Neovim:
        options = {"model": model, "languages": PATIENT}
        opened.append(Neovim(tmp_path, SERVER, name, text.replace("<cursor>", ""), options=options))
        opened[-1].wait(lambda: "ghostdraft: ready" in "\n".join(opened[-1].screen()), "the model", seconds=120)
        return opened[-1]

    yield start
    for neovim in opened:
        neovim.close()


@pytest.mark.timeout(600)
def test_a_model_writes_into_a_file_of_the_standard_library(start: Start, model: str) -> None:
    neovim = start("encoder.py", ENCODER)
    show(neovim, ENCODER)
    shown = accept(neovim, ENCODER, f"neovim-{model}-encoder")
    if model == "starter":
        assert LINE in shown[0]


@pytest.mark.timeout(600)
def test_asked_by_hand_a_model_writes_the_body_of_a_block(start: Start, model: str) -> None:
    """By itself a line of it comes, where the machine takes its time."""
    neovim = start("averages.py", AVERAGES)
    show(neovim, AVERAGES)
    neovim.evaluate("require('ghostdraft').suggest()")
    wait_for_ghost_text(neovim)
    shown = accept(neovim, AVERAGES, f"neovim-{model}-averages")
    if model == "starter":
        assert "self.mean" in shown[1]


def show(neovim: Neovim, text: str) -> None:
    before = text.partition("<cursor>")[0]
    neovim.evaluate(f"vim.fn.cursor({before.count(chr(10)) + 1}, 1)")
    neovim.type("ztA")
    wait_for_ghost_text(neovim)


def wait_for_ghost_text(neovim: Neovim) -> None:
    visible = "require('ghostdraft.suggest').visible()"
    neovim.wait(lambda: neovim.evaluate(visible) == "true", "ghost text", seconds=300)


def accept(neovim: Neovim, text: str, picture: str) -> list[str]:
    """The rows of the screen from the cursor's line on; the same must stand there once it is accepted."""
    before, _, behind = text.partition("<cursor>")
    shown = rows(neovim)
    neovim.picture(picture)
    neovim.press("Tab")
    neovim.wait(lambda: neovim.saved() != before + behind, "the text")
    assert neovim.saved().startswith(before)
    assert neovim.saved().endswith(behind)
    assert rows(neovim) == shown
    return shown


def rows(neovim: Neovim) -> list[str]:
    """What the screen shows, without its last two lines, which tell of other things."""
    return [row.rstrip() for row in neovim.screen()[:-2]]
