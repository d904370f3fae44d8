"""How far two sequences are the same, whatever types they are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting.bisection import common_prefix

TOKENS = st.lists(st.integers(0, 3), max_size=40)


@given(TOKENS, TOKENS, TOKENS)
@pytest.mark.parametrize("kind", [list, tuple])
def test_common_prefix(
    kind: Callable[[list[int]], Sequence[int]], shared: list[int], one: list[int], other: list[int]
) -> None:
    one, other = shared + one, shared + other
    n = common_prefix(one, kind(other))
    assert one[:n] == other[:n]
    assert n == min(len(one), len(other)) or one[n] != other[n]
