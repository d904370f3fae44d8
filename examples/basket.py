"""A shopping basket: a file of lines such as `3 apples 0.45`, and what they cost."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    count: int
    name: str
    price: float

    def cost(self) -> float:
        return self.count * self.price


def parse(text: str) -> list[Line]:
    """The lines of a basket; blank ones do not count."""
    lines = []
    for row in text.splitlines():
        if row.strip():
            
    return lines


def total(text: str) -> float:
    return sum(line.cost() for line in parse(text))
