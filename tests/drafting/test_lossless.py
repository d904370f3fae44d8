"""Greedy output of the real engine, drafted, is token for token what it writes one token at a time."""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.types import Verify
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import Draft, Drafter
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.load import load
from ghostdraft.models.sampling import Sampling
from tests.fakes import FakeDrafter, Never, Plan, Tokens

STDLIB = Path(sysconfig.get_path("stdlib"))
FILES = (
    "argparse.py", "ast.py", "base64.py", "bisect.py", "calendar.py", "cmd.py", "configparser.py", "copy.py", "csv.py",
    "dataclasses.py", "difflib.py", "enum.py", "fnmatch.py", "fractions.py", "functools.py", "gzip.py", "heapq.py",
    "inspect.py", "json/decoder.py", "json/encoder.py", "pathlib.py", "shlex.py", "statistics.py", "textwrap.py",
)  # fmt: skip
PREFIX = 400  # code points


class Prompts:
    """Places at line starts in files of the standard library: the text before, and the file as the open buffer."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        loaded = load(checkpoint.spec.name, "cpu", context=1024)
        self.model, self._tokenizer = loaded.model, loaded.tokenizer

    def take(self, count: int) -> Iterator[tuple[list[int], list[int]]]:
        """Prompt and buffer of `count` places, as tokens."""
        for i in range(count):
            text = (STDLIB / FILES[i % len(FILES)]).read_text(encoding="utf-8")
            cut = text.index("\n", len(text) * (2 + i // len(FILES)) // 6) + 1
            prefix = self._tokenizer.encode(text[max(0, cut - PREFIX) : cut])
            yield prefix, self._tokenizer.encode(text[:4000])


@pytest.fixture(scope="module")
def prompts(tiny: Checkpoint) -> Prompts:
    return Prompts(tiny)


def random_trees(vocab: int, output: dict[int, int]) -> Plan:
    """Trees of up to 8 tokens around `output`, what is known to come at each position; mostly wrong."""
    rng = random.Random(0)

    def plan(tokens: Tokens, most: int) -> Draft:
        size = rng.randint(0, min(most, 8))
        parents = [max(-1, i - rng.choice((1, 1, 2, 3))) for i in range(size)]
        depths: list[int] = []
        for parent in parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        drafted = [
            output.get(len(tokens) + depth, 0) if rng.random() < 0.6 else rng.randrange(vocab) for depth in depths
        ]
        return Draft(tuple(drafted), tuple(parents))

    return plan


def run(decoder: Decoder, drafter: Drafter, prompt: list[int], buffer: list[int], most: int) -> tuple[list[int], int]:
    """The tokens written, and how many of them were drafted."""
    decoder.drafter = drafter
    steps = [step for step in decoder.run(prompt, [buffer], most, (), Never()) if isinstance(step, Verify)]
    return [token for step in steps for token in step.token_ids], sum(step.accepted for step in steps)


def assert_lossless(prompts: Prompts, count: int, most: int) -> None:
    decoder = Decoder(prompts.model, NoDrafter(), Sampling.GREEDY)
    ngram, copied, guessed = NgramDrafter(), 0, 0
    written: list[int] = []
    for prompt, buffer in prompts.take(count):
        plain, _ = run(decoder, NoDrafter(), prompt, buffer, most)
        drafted, accepted = run(decoder, ngram, prompt, buffer, most)
        assert drafted == plain
        copied += accepted
        known = dict(enumerate(plain, len(prompt)))
        drafted, accepted = run(
            decoder, FakeDrafter(random_trees(prompts.model.shape.vocab, known)), prompt, buffer, most
        )
        assert drafted == plain
        guessed += accepted
        written += plain
    assert len(written) == count * most
    assert len(set(written)) > 0.1 * len(written)  # a model that says something
    assert copied > 0.1 * len(written)
    assert guessed > 0.1 * len(written)


def test_drafted_is_one_by_one(prompts: Prompts) -> None:
    assert_lossless(prompts, count=6, most=32)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_drafted_is_one_by_one_over_two_thousand_tokens(prompts: Prompts) -> None:
    assert_lossless(prompts, count=48, most=48)
