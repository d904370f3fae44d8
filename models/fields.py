"""Reads numbers out of what a file says of its model, and tells what cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


class BadFact(Exception):
    """What a file does not say, or says of no model that can be; follows the file's name."""


def count(fields: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A whole number above 0 that a C int holds; `default` where the file says none. Raises BadFact."""
    value = default if fields.get(key) is None else fields[key]
    if value is None:
        raise BadFact(f"does not say its `{key}`")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise BadFact(f"has no whole number above 0 as its `{key}`")
    return value


def number(value: Any, key: str) -> float:
    """Raises BadFact where it is not above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise BadFact(f"has no number above 0 as its `{key}`")
    return float(value)
