"""Shingles: any shared run of fifty tokens is found, and nothing shorter; what was kept once is never kept again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.benchmarks.shingles import LENGTH, Seen, Shelf, shingles

OURS, THEIRS = [f"ours{i}" for i in range(120)], [f"theirs{i}" for i in range(120)]
SOURCES = st.lists(st.sampled_from(["a", "b", "if", "(", ")", "=", "\n"]), max_size=200).map(" ".join)


@given(
    length=st.integers(LENGTH, 2 * LENGTH), at=st.integers(0, 60), before=st.integers(0, 60), after=st.integers(0, 60)
)
def test_a_shared_run_is_found_wherever_it_stands(length: int, at: int, before: int, after: int) -> None:
    run = [f"shared{i}" for i in range(length)]
    one = " ".join([*OURS[:at], *run, *OURS[at:]])
    other = "\n".join([*THEIRS[:before], *run, *THEIRS[:after]])
    assert Shelf([one]).shares_with(shingles(other))


@given(length=st.integers(0, LENGTH - 1), at=st.integers(0, 120), before=st.integers(0, 120))
def test_a_shorter_run_is_not_found(length: int, at: int, before: int) -> None:
    run = [f"shared{i}" for i in range(length)]
    one = " ".join([*OURS[:at], *run, *OURS[at:]])
    other = " ".join([*THEIRS[:before], *run, *THEIRS[before:]])
    assert not Shelf([one]).shares_with(shingles(other))


@given(SOURCES)
def test_there_is_one_shingle_for_each_run(text: str) -> None:
    tokens = len(text.split())
    assert len(shingles(text)) == max(min(tokens, 1), tokens - LENGTH + 1)


@given(SOURCES)
def test_blanks_count_for_nothing(text: str) -> None:
    assert np.array_equal(shingles(text), shingles(text.replace(" ", "\n\t").replace("(", " (")))


@given(SOURCES)
def test_a_text_shares_itself_if_it_has_tokens(text: str) -> None:
    assert Shelf([text]).shares_with(shingles(text)) is bool(text.split())


def test_a_short_text_is_found_as_a_whole_only() -> None:
    shelf = Shelf(["return one"])
    assert shelf.shares_with(shingles("return  one"))
    assert not shelf.shares_with(shingles("return one + two"))
    assert not Shelf([]).shares_with(shingles("return one"))


@given(st.lists(SOURCES, max_size=12))
def test_what_is_kept_is_kept_again_and_the_rest_is_not(texts: list[str]) -> None:
    def kept(candidates: list[str]) -> list[str]:
        seen, result = Seen(), []
        for text in candidates:
            if seen.share(shingles(text)) <= 0.5:
                seen.keep(shingles(text))
                result.append(text)
        return result

    once = kept(texts)
    assert kept(once) == once
    written = [text for text in once if text.split()]
    assert len({tuple(text.split()) for text in written}) == len(written)


def test_the_share_is_that_of_the_later_text() -> None:
    seen = Seen()
    seen.keep(shingles(" ".join(OURS)))
    half = [*OURS, *THEIRS]  # 71 of its 191 runs are known
    assert seen.share(shingles(" ".join(half))) == pytest.approx(71 / 191)
    assert seen.share(shingles("")) == 0.0
