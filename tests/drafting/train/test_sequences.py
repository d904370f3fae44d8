"""Training sequences: whole documents' windows, turned into prompts, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.train.sequences import Documents, Markers, Sampler, markers_of, turned
from ghostdraft.models.registry import prefix_first, suffix_first
from ghostdraft.models.types import FimTemplate, ModelSpec
from tests.models.small_models import shape

MARKERS = Markers(before=(-1, -2), between=(-3,))


def documents(*sizes: int) -> Documents:
    """Of tokens that count on through all of them."""
    return Documents(np.arange(sum(sizes), dtype=np.int32), np.cumsum((0, *sizes)))


@given(st.lists(st.integers(1, 40), min_size=1), st.integers(1, 30), st.data())
def test_a_window_stays_within_its_document_where_there_is_room(
    sizes: list[int], length: int, data: st.DataObject
) -> None:
    corpus = documents(*sizes)
    at = data.draw(st.integers(0, len(corpus.tokens) - 1))
    window = corpus.window(at, length)
    number = int(np.searchsorted(corpus.offsets, at, side="right")) - 1
    first, last = corpus.offsets[number], corpus.offsets[number + 1]
    assert (np.diff(window) == 1).all()
    if last - first >= length:
        assert len(window) == length
        assert first <= window[0]
        assert window[-1] < last


@given(st.integers(8, 60), st.integers(0, 80))
def test_a_turned_window_has_its_end_first_and_keeps_its_length(length: int, suffix: int) -> None:
    window = np.arange(length, dtype=np.int32)
    prompt = turned(window, suffix, MARKERS).tolist()
    behind, before = prompt[2 : prompt.index(-3)], prompt[prompt.index(-3) + 1 :]
    assert len(prompt) == length
    assert prompt[:2] == [-1, -2]
    assert behind == list(range(length - len(behind), length))
    assert before == list(range(len(before)))
    assert len(behind) <= suffix


def test_the_same_seed_gives_the_same_batches_in_any_order() -> None:
    corpus = {"python": documents(500, 300), "go": documents(900)}
    one, other = (Sampler(corpus, MARKERS, 64, seed=3) for _ in range(2))
    later = other.batch(7, 4)
    other.batch(0, 4)
    assert (one.batch(7, 4) == later).all()
    assert (one.batch(7, 4) != one.batch(8, 4)).any()
    assert (Sampler(corpus, MARKERS, 64, seed=4).batch(7, 4) != later).any()


def test_languages_too_short_for_a_sequence_are_left_out_and_none_at_all_is_told() -> None:
    assert Sampler({"go": documents(20), "c": documents(900)}, None, 64, seed=1).languages == ("c",)
    with pytest.raises(ValueError, match="more than 64 tokens"):
        Sampler({"go": documents(20)}, None, 64, seed=1)


def test_sequences_begin_as_the_targets_prompts_do() -> None:
    plain, begun = (Sampler({"go": documents(900)}, MARKERS, 64, 1, start) for start in ((), (-9,)))
    assert begun.batch(0, 8)[:, 0].tolist() == [-9] * 8
    assert (begun.batch(0, 8)[:, 1:] == plain.batch(0, 8)[:, :-1]).all()


class Letters:
    """A tokenizer, as far as it is used here."""

    def encode(self, text: str, special: bool = False) -> list[int]:
        return [ord(letter) for letter in text if special]


@pytest.mark.parametrize("fim", [(), (prefix_first("a", "b", "c"),)])
def test_a_model_without_the_suffix_first_is_trained_on_plain_text(fim: tuple[FimTemplate, ...]) -> None:
    assert markers_of(spec(fim), Letters()) is None


def test_markers_are_those_of_the_models_template() -> None:
    assert markers_of(spec((prefix_first("x", "y", "z"), suffix_first("a", "b", "c"))), Letters()) == Markers(
        (ord("a"), ord("b")), (ord("c"),)
    )


def spec(fim: tuple[FimTemplate, ...]) -> ModelSpec:
    return ModelSpec("small", "none", shape(), fim)
