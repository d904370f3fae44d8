"""A draft model's window over the text, and tokens that only one of the two models has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.decode import Decoder
from ghostdraft.drafting.draft_model import CONTEXT, SLIDE, WINDOW, DraftModel, window_start
from ghostdraft.drafting.growing import MOST_NODES, GrowingDrafter
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.sampling import Sampling
from tests.drafting.lossless.cast import Cast, hire, written
from tests.fakes import FLAT, FakeModel, Never, hashed_logits
from tests.models.small_models import shape, tokens


@given(st.integers(0, 3000), st.lists(st.integers(-400, 400), max_size=12))
def test_a_window_holds_the_last_tokens_and_no_more_than_fit(length: int, changes: list[int]) -> None:
    start = window_start(0, length)
    for change in changes:
        length = max(0, length + change)
        start = window_start(start, length)
        assert 0 <= start <= length
        assert min(length, WINDOW) <= length - start <= WINDOW + SLIDE
        assert length - start + MOST_NODES <= CONTEXT


def test_a_window_moves_once_in_many_tokens() -> None:
    start, moves = 0, 0
    for length in range(3000):
        moved = window_start(start, length)
        moves, start = moves + (moved != start), moved
    assert 0 < moves < 3000 // SLIDE


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Cast]:
    """Models with vocabularies padded to different sizes."""
    sizes = (60, 97)
    return {size: hire(replace(shape(), vocab=size), tmp_path_factory.mktemp(str(size)), 20) for size in sizes}


@pytest.mark.parametrize(("target", "draft"), [(97, 60), (60, 97)])
@pytest.mark.parametrize("copies", [False, True])
def test_tokens_that_only_one_of_the_two_has_do_no_harm(
    target: int, draft: int, copies: bool, family: dict[int, Cast]
) -> None:
    model, smaller = family[target].target(), family[draft].target(256)
    shared = np.arange(min(target, draft), dtype=np.int32)
    drafter = GrowingDrafter("one", DraftModel("one", smaller, shared), [NgramDrafter()] if copies else [])
    plain = Decoder(family[target].target(), NoDrafter(), Sampling.GREEDY, FLAT)
    runner = Decoder(model, drafter, Sampling.GREEDY, FLAT)
    for seed in range(6):
        prompt = tokens(30, seed, target) * 2
        output = written(list(runner.run(prompt, (), 40, (), Never())))
        assert output == written(list(plain.run(prompt, (), 40, (), Never())))


def test_a_draft_that_reads_along_reads_nothing_twice() -> None:
    """Through typing, and through output that is taken."""
    smaller = FakeModel(hashed_logits(40), 40, max_rows=64)
    drafter = GrowingDrafter("one", DraftModel("one", smaller, np.arange(40, dtype=np.int32)))
    runner = Decoder(FakeModel(hashed_logits(40, seed=1), 40), drafter, Sampling.GREEDY, FLAT)
    text = tokens(300, 1, 40)
    list(runner.run(text, (), 10, (), Never()))
    for _ in range(5):
        smaller.passes.clear()
        text = [*text, 7]
        list(runner.run(text, (), 10, (), Never()))
        assert sum(smaller.passes) < 200
