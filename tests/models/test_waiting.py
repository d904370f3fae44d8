"""A pass is over when `forward` returns: whoever looks at the clock before and behind it sees what it took."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ghostdraft.models.fallback import FallbackModel
from ghostdraft.models.graphs import WIDEST
from ghostdraft.models.types import LanguageModel
from tests.models.random_checkpoints import publish
from tests.models.recorded_graphs import RecordedGraphs
from tests.models.small_models import ours, shape, tokens
from tests.models.test_graphs import graphed

WAIT = "wait"
PRODUCTS = ("addmm", "bmm", "linear", "mm")
ENGINES: dict[str, Callable[[Path], LanguageModel]] = {
    "torch": lambda _folder: ours(shape()),
    "graphs": lambda _folder: graphed(RecordedGraphs()),
    "transformers": lambda folder: FallbackModel(publish("gpt_bigcode", {}, folder).checkpoint),
}


class Log(TorchDispatchMode):
    """What the device is given, in order, and where the host waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.lines: list[str] = []
        monkeypatch.setattr(torch.cpu, "synchronize", lambda *_: self.lines.append(WAIT))

    def __torch_dispatch__(self, function: Any, _types: Any, arguments: Any = (), options: Any = None) -> Any:
        self.lines.append(function.overloadpacket.__name__)
        return function(*arguments, **(options or {}))


@pytest.mark.parametrize("rows", [1, WIDEST, WIDEST + 1])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_pass_without_logits_waits_for_all_that_it_gave_the_device(
    engine: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ENGINES[engine](tmp_path)
    with Log(monkeypatch) as log:
        model.forward(tokens(rows))
    last_product = max(at for at, line in enumerate(log.lines) if line in PRODUCTS)
    assert WAIT in log.lines[last_product:]
