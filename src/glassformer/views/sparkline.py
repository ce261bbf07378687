"""A curve in a few lines of text, drawn with the dots of braille characters."""

import math
from collections.abc import Sequence
from itertools import pairwise

BLANK = 0x2800  # the braille character without dots; each dot is one bit on top of it
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row from above, then left and right


def sparkline(values: Sequence[float], width: int, height: int, bounds: tuple[float, float] | None = None) -> list[str]:
    """The curve of the finite values, [] if there are none; `bounds` are bottom and top, if not its own."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return []
    columns = _columns(finite, 2 * width)
    low, high = bounds or (min(columns), max(columns))
    levels = _levels(columns, low, high, 4 * height)
    cells = [[BLANK] * width for _ in range(height)]
    for column, level in enumerate(levels):
        # From beside the last point up or down to this one, so that a steep curve has no holes.
        before = levels[max(column - 1, 0)]
        start = level if before == level else before + (1 if level > before else -1)
        for dot in range(min(start, level), max(start, level) + 1):
            row = 4 * height - 1 - dot
            cells[row // 4][column // 2] |= DOTS[row % 4][column % 2]
    return ["".join(map(chr, row)) for row in cells]


def _columns(values: Sequence[float], count: int) -> list[float]:
    """One value for each column: the mean of those that fall on it, or where there are fewer, the nearest."""
    size = len(values)
    if size <= count:
        return [values[column * size // count] for column in range(count)]
    borders = [column * size // count for column in range(count + 1)]
    return [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(borders)]


def _levels(values: Sequence[float], low: float, high: float, count: int) -> list[int]:
    if not high > low:
        return [0] * len(values)
    return [round((min(max(value, low), high) - low) / (high - low) * (count - 1)) for value in values]
