"""How far two sequences are the same; by bisection, since comparing many at once is quick. Knows nothing of what they
hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens at the start are the same."""
    most = min(len(one), len(other))
    return longest(most, lambda least, length: tuple(one[least:length]) == tuple(other[least:length]))


def longest(most: int, same: Callable[[int, int], bool]) -> int:
    """The greatest length up to which all is the same; `same`: whether it is from a length that is known to be to a
    greater one."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if same(least, middle):
            least = middle
        else:
            most = middle - 1
    return least
