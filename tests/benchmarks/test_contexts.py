"""The bench of contexts times keys behind prompts that fill them."""

from __future__ import annotations

import pytest

from ghostdraft.benchmarks import contexts, memory
from ghostdraft.benchmarks.typist import TYPED, Key, document
from ghostdraft.completion.context import Window, prefix_start


def test_the_middle_of_the_times_stands_for_keys() -> None:
    spread = contexts.spread(512, "a line", [Key(10.0 * i, 5.0 * i, 100 + i) for i in range(1, 12)])
    assert (spread["prompt"], spread["p50"], spread["p90"], spread["model_p50"]) == (106, 60.0, 100.0, 30.0)


@pytest.mark.parametrize("context", contexts.CONTEXTS)
def test_what_is_typed_never_moves_the_start_of_the_prompt(context: int) -> None:
    """Else a key would pay for all of the prompt."""
    for length in (0, memory.LONG):
        before = document(3, context, length).before
        starts = {prefix_start(before, len(before) + key, Window.of(context).prefix) for key in range(120)}
        assert len(starts) == 1


@pytest.mark.model("tiny")
def test_the_prompt_of_a_key_grows_with_the_context() -> None:
    short, long = (contexts.key_costs("tiny", context) for context in (512, 1024))
    for answer in contexts.ANSWERS:
        assert len(short[answer]) == len(TYPED)
        assert all(0.0 < key.model < key.total for key in short[answer])
        assert long[answer][0].prompt > 1.5 * short[answer][0].prompt > 300
