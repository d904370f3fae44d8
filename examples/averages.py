"""Averages over a series of numbers, for example the prices of a share."""


def moving_average(values: list[float], width: int) -> list[float]:
    """The mean of each `width` neighbours: [1, 2, 3, 4] and 2 give [1.5, 2.5, 3.5]."""
    if not 0 < width <= len(values):
        raise ValueError(f"width must lie between 1 and {len(values)}")
    total = sum(values[:width])
    averages = [total / width]
    for i in range(width, len(values)):
        
        averages.append(total / width)
    return averages


def spread(values: list[float]) -> float:
    """The distance between the smallest and the largest value."""
    return max(values) - min(values)
