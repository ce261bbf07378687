"""The curves of a run as one picture: an SVG text that needs nothing beside it, readable on white and on black."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Record = Mapping[str, object]  # one line of metrics.jsonl
Points = Sequence[tuple[float, float]]

WIDTH, MARGIN_LEFT, MARGIN_RIGHT = 720, 72, 28
TOP, GAP, BOTTOM = 34, 30, 40
HEIGHTS = (220, 90, 90)  # of the plots: loss, learning rate, gradient norm
TICKS = 5  # about so many on an axis
NARROW = 2.5  # powers of ten; on a shorter axis every one of them gets ticks at two and five as well

STYLE = """
.curves { --back: #ffffff; --ink: #24292f; --grid: #d8dee4; --one: #0072b2; --two: #d55e00; }
@media (prefers-color-scheme: dark) {
  .curves { --back: #0d1117; --ink: #e6edf3; --grid: #30363d; --one: #56b4e9; --two: #e69f00; }
}
.curves text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.curves .back { fill: var(--back); }
.curves .grid { stroke: var(--grid); stroke-width: 1; }
.curves .note { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 2 3; }
.curves path { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.curves .one { stroke: var(--one); }
.curves .two { stroke: var(--two); }
.curves circle.one { fill: var(--one); }
.curves circle.two { fill: var(--two); }
"""


@dataclass(frozen=True)
class Curve:
    """One line of a plot; every point is marked where there are few, such as validations."""

    name: str
    style: str
    points: Points
    marked: bool = False


@dataclass(frozen=True)
class Scale:
    """An axis: values from `low` to `high` lie at pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def pixel(self, value: float) -> float:
        """Where a value lies."""
        at = math.log10 if self.logarithmic else float
        return self.start + (at(value) - at(self.low)) / (at(self.high) - at(self.low)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values to write at the axis."""
        return _powers(self.low, self.high) if self.logarithmic else _round_values(self.low, self.high)


def training_curves(records: Sequence[Record], logarithmic: bool = False) -> str:
    """Loss and validation, learning rate and gradient norm over the steps; `logarithmic` steps suit long runs."""
    plots = [
        (
            "loss",
            [_curve(records, "loss", "training", "one"), _curve(records, "validation", "validation", "two", True)],
        ),
        ("learning rate", [_curve(records, "rate", "learning rate", "one")]),
        ("gradient norm", [_curve(records, "norm", "gradient norm", "one")]),
    ]
    steps = [x for _, curves in plots for curve in curves for x, _ in curve.points]
    height = TOP + sum(HEIGHTS) + GAP * (len(HEIGHTS) - 1) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="curves" role="img" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">',
        f"<title>{escape(_summary(records))}</title><style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
    ]
    if steps:
        across = _step_scale(min(steps), max(steps), logarithmic)
        top = TOP
        for (title, curves), size in zip(plots, HEIGHTS, strict=True):
            parts += _plot(title, curves, across, top, top + size)
            top += size + GAP
        parts += _notes(records, across) + _legend(plots[0][1]) + _step_labels(across, top - GAP)
    else:
        parts.append(_text(WIDTH / 2, height / 2, "nothing was recorded yet", "middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def finite_points(records: Sequence[Record], key: str) -> list[tuple[float, float]]:
    """Step and value of every record that has a finite one under a key."""
    found = [(record.get("step"), record.get(key)) for record in records]
    return [(float(x), float(y)) for x, y in found if _is_finite(x) and _is_finite(y)]  # pyright: ignore - just asked


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _curve(records: Sequence[Record], key: str, name: str, style: str, marked: bool = False) -> Curve:
    return Curve(name, style, finite_points(records, key), marked)


def _summary(records: Sequence[Record]) -> str:
    losses, held_out = finite_points(records, "loss"), finite_points(records, "validation")
    if not losses:
        return "Training curves: nothing was recorded yet"
    text = f"Training curves: loss {losses[-1][1]:.4g} at step {losses[-1][0]:.0f}"
    return text + (f", best validation {min(y for _, y in held_out):.4g}" if held_out else "")


def _step_scale(low: float, high: float, logarithmic: bool) -> Scale:
    low = max(low, 1) if logarithmic else low
    high = high if high > low else low + 1
    return Scale(low, high, MARGIN_LEFT, WIDTH - MARGIN_RIGHT, logarithmic)


def _value_scale(curves: Sequence[Curve], top: float, bottom: float) -> Scale:
    values = [y for curve in curves for _, y in curve.points]
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(low - room, high + room, bottom, top)


def _plot(title: str, curves: Sequence[Curve], across: Scale, top: float, bottom: float) -> list[str]:
    parts = [_text(MARGIN_LEFT, top - 8, title, "start", "title")]
    if not any(curve.points for curve in curves):
        return [*parts, _text(WIDTH / 2, (top + bottom) / 2, "not recorded", "middle")]
    upwards = _value_scale(curves, top, bottom)
    for tick in upwards.ticks():
        y = upwards.pixel(tick)
        parts.append(_grid(MARGIN_LEFT, y, WIDTH - MARGIN_RIGHT, y))
        parts.append(_text(MARGIN_LEFT - 6, y + 4, f"{tick:.6g}", "end", "value"))
    for x in map(across.pixel, _whole_steps(across)):
        parts.append(_grid(x, top, x, bottom))
    for curve in curves:
        parts += _drawn(curve, across, upwards)
    return parts


def _drawn(curve: Curve, across: Scale, upwards: Scale) -> list[str]:
    # A step 0 has no place on a logarithmic axis.
    points = [(across.pixel(x), upwards.pixel(y)) for x, y in curve.points if x >= across.low]
    parts = []
    if len(points) > 1:
        line = " L ".join(f"{x:.2f} {y:.2f}" for x, y in points)
        parts.append(f'<path class="{curve.style}" data-name="{escape(curve.name)}" d="M {line}"/>')
    if curve.marked or len(points) == 1:
        parts += [f'<circle class="{curve.style}" cx="{x:.2f}" cy="{y:.2f}" r="2.4"/>' for x, y in points]
    return parts


def _step_labels(across: Scale, bottom: float) -> list[str]:
    ticks = [_text(across.pixel(step), bottom + 16, f"{step:,}", "middle", "step") for step in _whole_steps(across)]
    return [*ticks, _text((across.start + across.end) / 2, bottom + 33, "step", "middle")]


def _whole_steps(across: Scale) -> list[int]:
    return [round(tick) for tick in across.ticks() if abs(tick - round(tick)) < 1e-6]  # noqa: PLR2004 - rounding


def _legend(curves: Sequence[Curve]) -> list[str]:
    parts, x = [], float(WIDTH - MARGIN_RIGHT)
    for curve in reversed([curve for curve in curves if curve.points]):
        x -= 6.6 * len(curve.name)
        parts.append(_text(x, TOP - 8, curve.name, "start", "legend"))
        x -= 26
        parts.append(f'<path class="{curve.style}" d="M {x:.2f} {TOP - 12} h 20"/>')
        x -= 14
    return parts


def _notes(records: Sequence[Record], across: Scale) -> list[str]:
    """A dotted line through the loss for every note; pointing at it shows what it says."""
    parts = []
    for record in records:
        step, note = record.get("step"), record.get("note")
        if isinstance(note, str) and note and isinstance(step, (int, float)) and across.low <= step <= across.high:
            x = across.pixel(step)
            line = f'<line class="note" x1="{x:.2f}" y1="{TOP}" x2="{x:.2f}" y2="{TOP + HEIGHTS[0]}">'
            parts.append(f"{line}<title>{escape(_printable(f'step {step}: {note}'))}</title></line>")
    return parts


def _printable(text: str) -> str:
    """Without the characters that no XML can hold."""
    return "".join(character if character.isprintable() else " " for character in text)


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_values(low: float, high: float) -> list[float]:
    """Multiples of one, two or five times a power of ten, about as many as an axis needs."""
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten, on a short axis with their doubles and fives."""
    times = (1, 2, 5) if math.log10(high / low) < NARROW else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [m * 10.0**power for power in powers for m in times if low <= m * 10.0**power <= high]
