"""Copies of the KV cache: how many are kept, which is taken, and what a decoder makes of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.caches import Caches, Saved
from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.types import Verify
from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import CacheState
from tests.fakes import FakeModel, Never, hashed_logits

VOCAB = 7
TOKENS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12).map(tuple)


def saved(token_ids: tuple[int, ...]) -> Saved:
    return Saved(token_ids, CacheState(len(token_ids), 10 * len(token_ids), None))


def test_room_is_made_before_a_copy_and_none_that_is_too_large_is_made() -> None:
    caches = Caches(100)
    assert caches.make_room(1000)  # nobody knows yet what a copy takes
    for first in range(3):
        assert caches.make_room(3)
        assert caches.nbytes <= 70
        caches.put(saved((first, 1, 2)))
    assert caches.make_room(4)
    assert caches.nbytes == 60
    assert not caches.make_room(11)
    assert caches.nbytes == 60


@given(texts=st.lists(TOKENS), most=st.integers(0, 300))
def test_the_latest_that_fit_are_kept(texts: list[tuple[int, ...]], most: int) -> None:
    caches = Caches(most)
    for text in texts:
        caches.put(saved(text))
        assert caches.nbytes <= most
    kept = []
    for text in reversed(texts):
        if 10 * len(text) > most - sum(10 * len(other) for other in kept):
            break
        kept.append(text)
    for text in sorted(kept, key=len, reverse=True):
        assert (found := caches.take(text, len(text) - 1)) is not None
        assert found.token_ids[: len(text)] == text
    assert caches.nbytes == 0


@given(texts=st.lists(TOKENS), prompt=TOKENS, least=st.integers(0, 12))
def test_the_one_that_shares_most_is_handed_over(
    texts: list[tuple[int, ...]], prompt: tuple[int, ...], least: int
) -> None:
    caches = Caches()
    for text in texts:
        caches.put(saved(text))
    before = caches.nbytes
    most = max((common_prefix(text, prompt) for text in texts), default=0)
    found = caches.take(prompt, least)
    assert (found is not None) == (most > least)
    assert found is None or common_prefix(found.token_ids, prompt) == most
    assert caches.nbytes == before - (found.state.nbytes if found else 0)


def text(seed: int, length: int = 200) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCAB, length)]


def written(decoder: Decoder, prompt: list[int]) -> tuple[list[int], int]:
    """What follows the prompt, and how much of that was known already."""
    steps = list(decoder.run(prompt, [], 8, (), Never()))
    return [token for step in steps if isinstance(step, Verify) for token in step.token_ids], steps[0].reused


def decoder() -> Decoder:
    return Decoder(FakeModel(hashed_logits(VOCAB), VOCAB), NoDrafter(), Sampling())


def test_a_document_that_is_come_back_to_is_still_known() -> None:
    warm = decoder()
    for turn in range(3):
        for seed in range(3):
            prompt = text(seed) + [turn] * turn
            found, reused = written(warm, prompt)
            assert found == written(decoder(), prompt)[0]
            assert reused == (len(text(seed)) if turn else 0)


@given(turns=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 200)), max_size=8))
def test_whatever_was_read_before_the_answer_is_that_of_a_cold_start(turns: list[tuple[int, int]]) -> None:
    warm = decoder()
    for seed, length in turns:
        assert written(warm, text(seed, length))[0] == written(decoder(), text(seed, length))[0]


def test_forgetting_leaves_nothing() -> None:
    warm = decoder()
    for seed in (0, 1):
        written(warm, text(seed))
    warm.forget()
    for seed in (0, 1):
        assert written(warm, text(seed))[1] == 0
