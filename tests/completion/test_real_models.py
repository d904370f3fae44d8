"""The whole path with real models: what a user sees in real files."""

from __future__ import annotations

import json.encoder
from pathlib import Path
from threading import Event, Timer

import pytest

from ghostdraft.completion.context import Window
from ghostdraft.completion.engine import Engine
from ghostdraft.completion.prompt import Prompter, unfinished
from ghostdraft.completion.types import Budget, Completion, Context, Snapshot
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models import tokenizer
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.load import load
from ghostdraft.models.sampling import Sampling

SMALL = Window(3200, 500)
CUT = "        self.check"


@pytest.fixture(scope="module")
def tiny_engine(tiny: Checkpoint) -> Engine:
    return Engine(load(tiny.name, "cpu", context=1024), NgramDrafter(), Sampling.GREEDY, SMALL)


def encoder_cut_at(line: int, left: str) -> str:
    """json/encoder.py with the rest of this line, counted from 1, cut behind `left`."""
    lines = Path(json.encoder.__file__).read_text(encoding="utf-8").split("\n")
    number = next(i for i, text in enumerate(lines) if text.startswith(left) and i >= line - 10)
    return "\n".join([*lines[:number], left + "¦", *lines[number + 1 :]])


def complete(engine: Engine, marked: str, language_id: str = "python") -> Completion:
    before, _, behind = marked.partition("¦")
    snapshot = Snapshot("file:///a", 1, language_id, before + behind, len(before))
    return engine.complete(snapshot, Budget(48), Event())


def test_starter_takes_the_text_behind_the_cursor_into_account(starter: Checkpoint) -> None:
    engine = Engine(load(starter.name, "cpu", context=1024), NgramDrafter(), Sampling.GREEDY, SMALL)
    assert complete(engine, encoder_cut_at(150, CUT)).text == "_circular = check_circular"
    typed = complete(engine, encoder_cut_at(150, CUT + "_"))
    assert typed.text == "circular = check_circular"
    assert typed.stats.reused_tokens >= typed.stats.prompt_tokens - 4


def test_tiny_goes_on_with_a_word_that_is_half_written(tiny_engine: Engine) -> None:
    assert complete(tiny_engine, "def area(width, height):\n    retu¦\n").text.startswith("rn ")


def test_tiny_writes_a_body_and_stops_with_it(tiny_engine: Engine) -> None:
    completion = complete(
        tiny_engine, 'def add(a, b):\n    """The sum of a and b."""\n    ¦\n\n\ndef other():\n    pass\n'
    )
    compile("def add(a, b):\n    " + completion.text, "added", "exec")
    assert completion.text.startswith("return a + b")


@pytest.mark.parametrize("marked", ["x = {'a': 1, ¦}\n", "import os\n\nfor name in os.¦\n", "# The ¦\n"])
def test_drafting_changes_no_answer(tiny_engine: Engine, marked: str) -> None:
    tiny_engine.decoder.drafter = NoDrafter()
    plain = complete(tiny_engine, marked)
    tiny_engine.decoder.drafter = NgramDrafter()
    tiny_engine.decoder.forget()
    assert complete(tiny_engine, marked).text == plain.text


@pytest.mark.parametrize("name", ["tiny", "starter"])
def test_a_remembered_head_changes_no_token(name: str, request: pytest.FixtureRequest) -> None:
    """Real tokenizers split text between words before they look for tokens."""
    checkpoint: Checkpoint = request.getfixturevalue(name)
    words = tokenizer.load(checkpoint.tokenizer_path)
    prompter = Prompter(checkpoint.spec, words)
    text = Path(json.encoder.__file__).read_text(encoding="utf-8")
    for end in range(0, len(text), 97):
        prefix = text[max(0, end - 4096) : end]
        expected = words.encode(prefix[: len(prefix) - len(unfinished(prefix))]) or words.encode("\n")
        assert prompter.build(Context(prefix, ""), 8).token_ids == tuple(expected)


def test_measuring_in_pieces_changes_no_answer(tiny_engine: Engine) -> None:
    marked = "import os\n\nfor name in os.¦\n"
    expected = complete(tiny_engine, marked).text
    for seconds in (0.01, 0.1, 0.2):
        cancel = Event()
        timer = Timer(seconds, lambda cancel=cancel: (cancel.set(), tiny_engine.interrupt()))
        timer.start()
        tiny_engine.measure(cancel)
        timer.join()
        answer = complete(tiny_engine, marked)
        assert answer.text == expected
        assert answer.stats.read_tokens == 0
