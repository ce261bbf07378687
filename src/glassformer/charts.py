"""Charts: SVG pictures for light and dark pages, training curves, labeled points, sparklines for a terminal."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

Record = Mapping[str, object]  # one line of metrics.jsonl
Points = Sequence[tuple[float, float]]

WIDTH, MARGIN_LEFT, MARGIN_RIGHT = 720, 72, 28
TOP, GAP, BOTTOM = 34, 30, 40
HEIGHTS = (220, 90, 90)  # of the plots: loss, learning rate, gradient norm
POINTS_WIDTH, POINTS_HEIGHT, LINE = 600, 420, 12  # of a plane of points, and of a line of names
TICKS = 5  # about this many on an axis
NARROW = 2.5  # powers of ten; a shorter logarithmic axis also gets ticks at two and five
BLANK = 0x2800  # the braille character without dots; each dot is one bit on top of it
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row from above, then left and right

STYLE = """
.curves { --back: #ffffff; --ink: #24292f; --grid: #d8dee4; --one: #0072b2; --two: #d55e00; --three: #009e73; }
@media (prefers-color-scheme: dark) {
  .curves { --back: #0d1117; --ink: #e6edf3; --grid: #30363d; --one: #56b4e9; --two: #e69f00; --three: #009e73; }
}
.curves text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.curves .back { fill: var(--back); }
.curves .grid { stroke: var(--grid); stroke-width: 1; }
.curves .note { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 2 3; }
.curves .box { fill: var(--back); stroke: var(--ink); stroke-width: 1.2; }
.curves .flow { stroke: var(--ink); }
.curves .flow.back { stroke: var(--two); stroke-dasharray: 4 3; }
.curves path { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.curves .one { stroke: var(--one); }
.curves .two { stroke: var(--two); }
.curves .three { stroke: var(--three); }
.curves circle.one { fill: var(--one); }
.curves circle.two { fill: var(--two); }
.curves circle.three { fill: var(--three); }
"""


@dataclass(frozen=True)
class Curve:
    """One line of a chart; `marked` draws a dot at every point, for sparse points such as validations."""

    name: str
    style: str
    points: Points
    marked: bool = False


@dataclass(frozen=True)
class Scale:
    """An axis that maps values from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def pixel(self, value: float) -> float:
        """The pixel of a value."""
        at = math.log10 if self.logarithmic else float
        return self.start + (at(value) - at(self.low)) / (at(self.high) - at(self.low)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values to label: 1, 2 or 5 times a power of ten; on a long logarithmic axis powers of ten only."""
        if self.logarithmic:
            times = (1, 2, 5) if math.log10(self.high / self.low) < NARROW else (1,)
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            return [m * 10.0**power for power in powers for m in times if self.low <= m * 10.0**power <= self.high]
        rough = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def svg_picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """An SVG picture that needs nothing beside it."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="curves" role="img" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<title>{escape(title)}</title><style>{STYLE}</style>",
            f'<rect class="back" width="{width}" height="{height}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def svg_curve(curve: Curve, across: Scale, upwards: Scale, joined: bool = True) -> list[str]:
    """A curve as a line, with dots where it is marked, not joined, or has a single point."""
    # A step 0 has no pixel on a logarithmic axis.
    points = [(across.pixel(x), upwards.pixel(y)) for x, y in curve.points if x >= across.low]
    parts = []
    if joined and len(points) > 1:
        line = " L ".join(f"{x:.2f} {y:.2f}" for x, y in points)
        parts.append(f'<path class="{curve.style}" data-name="{escape(curve.name)}" d="M {line}"/>')
    if curve.marked or not joined or len(points) == 1:
        parts += [f'<circle class="{curve.style}" cx="{x:.2f}" cy="{y:.2f}" r="2.4"/>' for x, y in points]
    return parts


def svg_legend(curves: Sequence[Curve], right: float, baseline: float) -> list[str]:
    """The names of the curves in a row that ends at `right`, each behind a piece of its line."""
    parts, x = [], float(right)
    for curve in reversed([curve for curve in curves if curve.points]):
        x -= 6.6 * len(curve.name)
        parts.append(svg_text(x, baseline, curve.name, "start", "legend"))
        x -= 26
        parts.append(f'<path class="{curve.style}" d="M {x:.2f} {baseline - 4} h 20"/>')
        x -= 14
    return parts


def svg_grid(x1: float, y1: float, x2: float, y2: float) -> str:
    """A grid line."""
    return f'<line class="grid" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def svg_text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    """A label."""
    return f'<text class="{kind}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>'


def labeled_points(points: Mapping[str, tuple[float, float]], title: str) -> str:
    """Points with their names in a plane, both axes at one scale; a name moves down where another is in its way."""
    xs, ys = zip(*points.values(), strict=True)
    middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    half = max(max(xs) - min(xs), (max(ys) - min(ys)) * POINTS_WIDTH / POINTS_HEIGHT) / 2 or 1.0
    low = half * POINTS_HEIGHT / POINTS_WIDTH
    across = Scale(middle[0] - half, middle[0] + half, MARGIN_RIGHT, MARGIN_RIGHT + POINTS_WIDTH)
    upwards = Scale(middle[1] - low, middle[1] + low, TOP + POINTS_HEIGHT, TOP)
    parts: list[str] = []
    taken: list[tuple[float, float, float]] = []  # left, right and baseline of the names
    for name, (x, y) in sorted(points.items(), key=lambda item: -item[1][1]):
        left, baseline = across.pixel(x) + 5, upwards.pixel(y) + 4
        right = left + 7 * len(name)
        while any(left < end and start < right and abs(baseline - line) < LINE for start, end, line in taken):
            baseline += 1
        taken.append((left, right, baseline))
        parts.append(f'<circle class="one" cx="{across.pixel(x):.2f}" cy="{upwards.pixel(y):.2f}" r="2.4"/>')
        parts.append(svg_text(left, baseline, name, "start"))
    height = TOP + POINTS_HEIGHT + BOTTOM
    return svg_picture(WIDTH, height, title, [svg_text(MARGIN_RIGHT, TOP - 16, title, "start", "title"), *parts])


def training_curves(records: Sequence[Record], logarithmic: bool = False) -> str:
    """Training and validation loss, learning rate and gradient norm by step; `logarithmic` scales the steps."""
    losses = Curve("training", "one", _points(records, "loss"))
    plots = [
        ("loss", [losses, Curve("validation", "two", _points(records, "validation"), marked=True)]),
        ("learning rate", [Curve("learning rate", "one", _points(records, "learning_rate"))]),
        ("gradient norm", [Curve("gradient norm", "one", _points(records, "grad_norm"))]),
    ]
    steps = [x for _, curves in plots for curve in curves for x, _ in curve.points]
    height = TOP + sum(HEIGHTS) + GAP * (len(HEIGHTS) - 1) + BOTTOM
    if not steps:
        parts = [svg_text(WIDTH / 2, height / 2, "nothing was recorded yet", "middle")]
        return svg_picture(WIDTH, height, _summary(records), parts)
    low = max(min(steps), 1) if logarithmic else min(steps)
    across = Scale(low, max(steps) if max(steps) > low else low + 1, MARGIN_LEFT, WIDTH - MARGIN_RIGHT, logarithmic)
    parts, top = [], TOP
    for (title, curves), size in zip(plots, HEIGHTS, strict=True):
        parts += _plot(title, curves, across, top, top + size)
        top += size + GAP
    parts += _notes(records, across) + svg_legend(plots[0][1], WIDTH - MARGIN_RIGHT, TOP - 8)
    for step in _whole_steps(across):
        parts.append(svg_text(across.pixel(step), top - GAP + 16, f"{step:,}", "middle", "step"))
    parts.append(svg_text((across.start + across.end) / 2, top - GAP + 33, "step", "middle"))
    return svg_picture(WIDTH, height, _summary(records), parts)


@dataclass(frozen=True)
class Panel:
    """A plot among others: its title and its curves, and where its vertical axis begins."""

    title: str
    curves: Sequence[Curve]
    low: float = 0
    height: float = HEIGHTS[0] / 2


def panels(title: str, found: Sequence[Panel]) -> str:
    """Plots below each other, each with its own two axes, from zero where a panel does not say otherwise."""
    parts, top = [svg_text(MARGIN_LEFT, TOP - 16, title, "start", "title")], TOP + GAP
    for panel in found:
        bottom, points = top + panel.height, [point for curve in panel.curves for point in curve.points]
        across = Scale(0, max([x for x, _ in points], default=1) * 1.05, MARGIN_LEFT, WIDTH - MARGIN_RIGHT)
        most = max([y for _, y in points], default=panel.low)
        high = most + 0.05 * (most - panel.low) if most > panel.low else panel.low + 1.0
        upwards = Scale(panel.low, high, bottom, top)
        parts.append(svg_text(MARGIN_LEFT, top - 8, panel.title, "start", "title"))
        parts += svg_legend(panel.curves, WIDTH - MARGIN_RIGHT, top - 8) if len(panel.curves) > 1 else []
        for tick in upwards.ticks():
            parts.append(svg_grid(MARGIN_LEFT, upwards.pixel(tick), WIDTH - MARGIN_RIGHT, upwards.pixel(tick)))
            parts.append(svg_text(MARGIN_LEFT - 6, upwards.pixel(tick) + 4, f"{tick:.6g}", "end", "value"))
        for tick in across.ticks():
            parts.append(svg_text(across.pixel(tick), bottom + 16, f"{tick:,.6g}", "middle", "value"))
        parts += [part for curve in panel.curves for part in svg_curve(curve, across, upwards)]
        top = bottom + GAP + BOTTOM
    return svg_picture(WIDTH, round(top), title, parts)


def _points(records: Sequence[Record], key: str) -> list[tuple[float, float]]:
    """Step and value of every record with a finite value under a key."""
    found = [(record.get("step"), record.get(key)) for record in records]
    numbers = [(float(x), float(y)) for x, y in found if isinstance(x, int | float) and isinstance(y, int | float)]
    return [(x, y) for x, y in numbers if math.isfinite(x) and math.isfinite(y)]


def _summary(records: Sequence[Record]) -> str:
    losses, validations = _points(records, "loss"), _points(records, "validation")
    if not losses:
        return "Training curves: nothing was recorded yet"
    text = f"Training curves: loss {losses[-1][1]:.4g} at step {losses[-1][0]:.0f}"
    return text + (f", best validation {min(y for _, y in validations):.4g}" if validations else "")


def _plot(title: str, curves: Sequence[Curve], across: Scale, top: float, bottom: float) -> list[str]:
    parts = [svg_text(MARGIN_LEFT, top - 8, title, "start", "title")]
    values = [y for curve in curves for _, y in curve.points]
    if not values:
        return [*parts, svg_text(WIDTH / 2, (top + bottom) / 2, "not recorded", "middle")]
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    upwards = Scale(low - room, high + room, bottom, top)
    for tick in upwards.ticks():
        y = upwards.pixel(tick)
        parts.append(svg_grid(MARGIN_LEFT, y, WIDTH - MARGIN_RIGHT, y))
        parts.append(svg_text(MARGIN_LEFT - 6, y + 4, f"{tick:.6g}", "end", "value"))
    parts += [svg_grid(x, top, x, bottom) for x in map(across.pixel, _whole_steps(across))]
    return parts + [part for curve in curves for part in svg_curve(curve, across, upwards)]


def _whole_steps(across: Scale) -> list[int]:
    return [round(tick) for tick in across.ticks() if abs(tick - round(tick)) < 1e-6]  # noqa: PLR2004 - rounding


def _notes(records: Sequence[Record], across: Scale) -> list[str]:
    """A dotted line through the loss for every note, with the note as its tooltip."""
    parts = []
    for record in records:
        step, note = record.get("step"), record.get("note")
        if isinstance(note, str) and note and isinstance(step, (int, float)) and across.low <= step <= across.high:
            x = across.pixel(step)
            line = f'<line class="note" x1="{x:.2f}" y1="{TOP}" x2="{x:.2f}" y2="{TOP + HEIGHTS[0]}">'
            # XML cannot hold control characters, not even escaped ones.
            text = "".join(c if c.isprintable() else " " for c in f"step {step}: {note}")
            parts.append(f"{line}<title>{escape(text)}</title></line>")
    return parts


def sparkline(values: Sequence[float], width: int, height: int, bounds: tuple[float, float] | None = None) -> list[str]:
    """A curve of the finite values in lines of braille dots, [] if there are none; `bounds` fixes bottom and top."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return []
    columns = _columns(finite, 2 * width)
    low, high = bounds or (min(columns), max(columns))
    span, most = high - low if high > low else math.inf, 4 * height - 1
    levels = [round((min(max(value, low), high) - low) / span * most) for value in columns]
    cells = [[BLANK] * width for _ in range(height)]
    for column, level in enumerate(levels):
        # Connect to the previous point vertically, so that a steep curve has no holes.
        before = levels[max(column - 1, 0)]
        start = level if before == level else before + (1 if level > before else -1)
        for dot in range(min(start, level), max(start, level) + 1):
            row = 4 * height - 1 - dot
            cells[row // 4][column // 2] |= DOTS[row % 4][column % 2]
    return ["".join(map(chr, row)) for row in cells]


def _columns(values: Sequence[float], count: int) -> list[float]:
    """One value per column: the mean of the values that fall on it, or the nearest where there are fewer."""
    size = len(values)
    if size <= count:
        return [values[column * size // count] for column in range(count)]
    borders = [column * size // count for column in range(count + 1)]
    return [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(borders)]
