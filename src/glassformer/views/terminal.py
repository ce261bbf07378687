"""A trace in the terminal: a table of its steps, and each step with its formula and its matrices in color."""

import io
import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.probes.trace import Trace, TraceStep
from glassformer.views.console import SafeConsole
from glassformer.views.tables import FittingTable, MatrixTable
from glassformer.views.unicode_math import unicode_math
from glassformer.views.windows import MatrixWindow, largest, not_a_number, not_finite_text, windows

ROWS, COLUMNS, MATRICES = 8, 8, 2
DIGITS_SHOWN = 3
_STRONG = 0.6  # from here on a ground is dark enough for white digits
_WARM, _COLD = (178, 24, 43), (33, 102, 172)
_APART = {"NaN": "rgb(123,31,162)", "∞": "rgb(154,82,0)", "−∞": "rgb(97,97,97)"}  # neither warm nor cold


def render(view: RenderableType, width: int, color: bool) -> str:
    """A view as text, with or without colors."""
    text = io.StringIO()
    console = SafeConsole(
        file=text, width=width, force_terminal=color, color_system="truecolor" if color else None,
        markup=False, highlight=False, emoji=False,
    )  # fmt: skip
    console.print(view)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def steps_table(trace: Trace) -> FittingTable:
    """Each selected step on a line: name, equation, shape, cost, its largest number and its largest gradient."""
    sizes = ("largest value", "largest gradient") if trace.gradients else ("largest value",)
    rows = []
    for step in trace.steps:
        row = ["  " * step.depth + step.name, step.equation.name, shown_shape(step), f"{step.cost.flops:,}"]
        row.append(_largest(step.value) if isinstance(step.output, Tensor) else number_text(step.output))
        if trace.gradients:
            row.append("" if step.gradient is None else _largest(step.gradient))
        rows.append(row)
    return FittingTable(("step", "equation", "shape", "operations", *sizes), rows)


def step_view(step: TraceStep) -> Group:
    """One step whole: its formula, what each letter stands for, its value and, if there is one, its gradient."""
    rule = step.equation.gradient
    parts: list[RenderableType] = [
        Text(step.name, style="bold"),
        Text(f"  {step.equation.name}: {step.equation.meaning}"),
        Text(f"  {unicode_math(step.equation.latex)}", style="italic"),
        Padding(_symbols(step), (0, 0, 0, 2)),
        *_matrices(step, step.value),
    ]
    if step.gradient is not None:
        parts.append(Text(f"  gradient of the loss with respect to {step.equation.results[0].name}"))
        parts.extend(_matrices(step, step.gradient))
        sent = f"sent back by {unicode_math(rule.latex)}" if rule else "sent back through its parts"
        parts.append(Text(f"  {sent}", style="italic"))
    return Group(*parts)


def matrix_table(
    values: Sequence[Sequence[float]],
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    title: str = "",
    digits: int = DIGITS_SHOWN,
) -> MatrixTable:
    """A matrix of numbers, the large ones in strong colors: warm above zero, cold below; NaN and infinities apart."""
    most = largest(values)
    cells = [[Text(not_a_number(x) or number(x, digits, most), style=_color(x, most)) for x in row] for row in values]
    return MatrixTable(cells, rows, columns, title)


def _largest(value: Tensor) -> str:
    finite = value[value.isfinite()].abs()
    size = number(finite.max(), DIGITS_SHOWN) if finite.numel() else ""
    return ", ".join(filter(None, (size, not_finite_text(value))))


def agreement_text(trace: Trace) -> str:
    """How closely the run itself agrees with the reference equations shown, and how many numbers are not finite."""
    found = trace.difference
    if found is None:
        return ""
    if found.difference == math.inf:
        return "shown by the reference equations; the run itself has NaN or infinities at other positions"
    within = f"came out within {found.difference:.2g} ({found.relative:.1e} of its size)"
    if not found.not_finite:
        return f"shown by the reference equations; the run itself {within}"
    bad = f"{found.not_finite:,} of {found.numbers:,} numbers of the output are NaN or infinite"
    rest = f", the others {within}" if found.not_finite < found.numbers else ""
    return f"shown by the reference equations; {bad}, in the run itself as well{rest}"


def shape_text(shape: Sequence[int]) -> str:
    """A shape such as `1×2×7×7`."""
    return "×".join(map(str, shape)) or "1"


def shown_shape(step: TraceStep) -> str:
    """The shape of what is shown of a step, and of the whole if that is more."""
    part, whole = shape_text(step.value_shape), shape_text(step.shape)
    return part if part == whole else f"{part} of {whole}"


def size_text(value: Tensor) -> str:
    """How far the numbers of a tensor reach, and how many of them are not finite."""
    if value.numel() == 1:
        return not_a_number(float(value)) or number(value.detach(), DIGITS_SHOWN)
    finite = value.detach()[value.isfinite()]
    ends = [number(end, DIGITS_SHOWN) for end in (finite.min(), finite.max())] if finite.numel() else []
    return ", ".join(filter(None, (" to ".join(ends), not_finite_text(value))))


def number_text(value: object) -> str:
    """A setting or a single number as text."""
    return number(value) if isinstance(value, float) else str(value)


def _symbols(step: TraceStep) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for bound in step.symbols:
        if isinstance(bound.value, Tensor):
            table.add_row(bound.symbol.name, shape_text(bound.value.shape), bound.source, bound.symbol.meaning)
        elif bound.value is not None and not isinstance(bound.value, (list, tuple)):
            table.add_row(bound.symbol.name, number_text(bound.value), "", bound.symbol.meaning)
    return table


def _matrices(step: TraceStep, value: Tensor) -> list[RenderableType]:
    shown = list(windows(step, value, ROWS, COLUMNS, MATRICES))
    views = [Padding(_matrix(window), (0, 0, 0, 2)) for window in shown]
    left = value.numel() - sum(len(row) for window in shown for row in window.values)
    return [*views, *([Text(f"  and {left:,} more numbers")] if left else [])]


def _matrix(window: MatrixWindow) -> MatrixTable:
    return matrix_table(window.values, window.rows, window.columns, window.title)


def _color(x: float, most: float) -> Style:
    if special := not_a_number(x):
        return Style(bgcolor=_APART[special], color="white", bold=True)
    if not most or x == 0:  # nothing to compare with
        return Style.null()
    strength = abs(x) / most
    red, green, blue = (round(245 - strength * (245 - channel)) for channel in (_WARM if x > 0 else _COLD))
    return Style(bgcolor=f"rgb({red},{green},{blue})", color="white" if strength > _STRONG else "black")
