"""Charts of a lesson, as SVG and as lines of text."""

import bisect
import math
from collections.abc import Sequence

from glassformer.arithmetic import number
from glassformer.charts import (
    Curve,
    Scale,
    sparkline,
    svg_curve,
    svg_grid,
    svg_legend,
    svg_picture,
    svg_text,
)
from glassformer.course.page import Chart

SIZE, LEFT, RIGHT, ABOVE, BELOW = (640, 280), 64, 16, 28, 40
TEXT_WIDTH, TEXT_HEIGHT = 56, 5


def chart_svg(chart: Chart) -> str:
    """A chart as an SVG picture that needs nothing beside it."""
    (width, height), (across, upwards) = SIZE, _scales(chart)
    parts = [
        svg_text(LEFT, 16, chart.title, "start"),
        svg_text((LEFT + width - RIGHT) / 2, height - 6, chart.across, "middle"),
    ]
    for tick in upwards.ticks():
        y = upwards.pixel(tick)
        parts += [svg_grid(LEFT, y, width - RIGHT, y), svg_text(LEFT - 6, y + 4, number(tick), "end")]
    parts += [svg_text(across.pixel(x), height - BELOW + 16, number(x), "middle") for x in across.ticks()]
    parts += [part for curve in chart.curves for part in svg_curve(curve, across, upwards, chart.joined)]
    return svg_picture(width, height, chart.title, parts + svg_legend(chart.curves, width - RIGHT, 16))


def chart_lines(chart: Chart) -> list[str]:
    """A chart in text: the curves one below the other, all on one scale, each with the range of its values."""
    if not chart.joined:
        points = [", ".join(f"({number(x)}, {number(y)})" for x, y in curve.points) for curve in chart.curves]
        named = [f"{curve.name}: {text}" for curve, text in zip(chart.curves, points, strict=True)]
        return [f"{chart.title}, over {chart.across}", *named]
    x, y = ([point[axis] for curve in chart.curves for point in curve.points] for axis in (0, 1))
    scale = f"{number(min(y))} to {number(max(y))}{', logarithmic' if chart.logarithmic else ''}"
    lines = [f"{chart.title}, over {chart.across}", f"scale: {scale}"]
    for curve in chart.curves:
        heights = [height for _, height in curve.points]
        lines.append(f"{curve.name}: {number(min(heights))} to {number(max(heights))}")
        lines += [f"  {line}" for line in _text_curve(chart, curve, (min(x), max(x)), (min(y), max(y)))]
    return lines


def _text_curve(chart: Chart, curve: Curve, across: tuple[float, float], upwards: tuple[float, float]) -> list[str]:
    """One curve in lines of text, over its own part of the axis and on the scale of its chart."""
    xs, heights = zip(*sorted(curve.points), strict=True)
    per_unit = TEXT_WIDTH / (across[1] - across[0] or 1.0)
    left = round((xs[0] - across[0]) * per_unit)
    width = max(1, round((xs[-1] - across[0]) * per_unit) - left)
    count = max(2 * width, len(xs))
    at = [xs[0] + (xs[-1] - xs[0]) * i / (count - 1) for i in range(count)]
    values = [_between(xs, heights, x) for x in at]
    if chart.logarithmic:
        values, upwards = [math.log10(value) for value in values], (math.log10(upwards[0]), math.log10(upwards[1]))
    return [" " * left + line for line in sparkline(values, width, TEXT_HEIGHT, upwards)]


def _between(xs: Sequence[float], heights: Sequence[float], x: float) -> float:
    """The height of a curve at an x, on the straight line between two points."""
    after = bisect.bisect_left(xs, x)
    if not 0 < after < len(xs):
        return heights[min(after, len(xs) - 1)]
    (a, b), (start, end) = xs[after - 1 : after + 1], heights[after - 1 : after + 1]
    return start + (end - start) * (x - a) / (b - a)


def _scales(chart: Chart) -> tuple[Scale, Scale]:
    width, height = SIZE
    x, y = ([point[axis] for curve in chart.curves for point in curve.points] for axis in (0, 1))
    low, high = min(y), max(y)
    room = 0.0 if chart.logarithmic else 0.05 * (high - low) or 1.0
    across = Scale(min(x), max(*x, min(x) + 1e-9), LEFT, width - RIGHT)
    return across, Scale(low - room, high + room, height - BELOW, ABOVE, chart.logarithmic)
