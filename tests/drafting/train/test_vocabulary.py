"""A draft's vocabulary: what is usual, in each language alike."""

from __future__ import annotations

import numpy as np

from ghostdraft.drafting.train.sequences import Documents
from ghostdraft.drafting.train.vocabulary import usual_tokens


def documents(tokens: list[int]) -> Documents:
    return Documents(np.array(tokens, np.int32), np.array([0, len(tokens)]))


def test_small_languages_count_as_much_as_large_ones() -> None:
    languages = {"large": documents([1] * 600 + [2] * 300 + [3] * 100), "small": documents([7, 7, 8])}
    assert usual_tokens(languages, 10, always=(), count=3).tolist() == [1, 7, 8]


def test_some_are_there_always_and_all_where_there_is_room() -> None:
    languages = {"one": documents([1, 1, 2])}
    assert usual_tokens(languages, 10, always=(9, 5), count=3).tolist() == [1, 5, 9]
    assert usual_tokens(languages, 10, always=(), count=20).tolist() == list(range(10))
