"""A trace in the terminal: a table of its steps, and each step with its formula and windows of its tensors in color."""

import io
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.probes.names import TOKEN_AXES
from glassformer.probes.trace import Trace, TraceStep
from glassformer.views.console import SafeConsole
from glassformer.views.tables import FittingTable, MatrixTable
from glassformer.views.unicode_math import unicode_math

ROWS, COLUMNS, MATRICES = 8, 8, 2
DIGITS_SHOWN = 3
_STRONG = 0.6  # of the largest value; from here on the background is dark enough for white digits
_WARM, _COLD = (178, 24, 43), (33, 102, 172)
_APART = {"NaN": "rgb(123,31,162)", "∞": "rgb(154,82,0)", "−∞": "rgb(97,97,97)"}  # neither warm nor cold


@dataclass(frozen=True)
class MatrixWindow:
    """The part of a matrix that is shown, its index in the tensor, and labels for its rows and columns."""

    index: tuple[int, ...]
    start: tuple[int, int]
    values: list[list[float]]
    shape: tuple[int, int]
    rows: Sequence[str]
    columns: Sequence[str]
    title: str


def windows(step: TraceStep, value: Tensor, rows: int, columns: int, most: int) -> Iterator[MatrixWindow]:
    """The first matrices of a step's value or gradient, at most `rows` by `columns` of each."""
    offset = [step.starts.get(axis, 0) for axis in range(value.dim())]
    padded = value.detach().double().cpu().reshape((1,) * (2 - min(2, value.dim())) + tuple(value.shape))
    start = (offset[-2] if value.dim() > 1 else 0, offset[-1] if offset else 0)
    row_labels, column_labels = _token_labels(step)
    for index in itertools.islice(itertools.product(*map(range, padded.shape[:-2])), most):
        matrix = padded[index]
        at = tuple(a + b for a, b in zip(index, offset, strict=False))
        yield MatrixWindow(
            index=at if value.dim() > 2 else (),
            start=start,
            values=matrix[:rows, :columns].tolist(),
            shape=(matrix.shape[0], matrix.shape[1]),
            rows=row_labels[start[0] :] if value.dim() > 1 else (),
            columns=column_labels,
            title=", ".join(f"{axis.removesuffix('s')} {i}" for axis, i in zip(step.axes, at, strict=False)),
        )


def _token_labels(step: TraceStep) -> tuple[Sequence[str], Sequence[str]]:
    """The tokens of the rows and of the columns of a step's value, where they are known."""
    tokens, axes = list(step.trace.tokens.items()), step.axes
    if not tokens or len(axes) < 2:
        return (), ()
    queries = tokens[-1][1] if len(tokens) == 1 or _after_target(step, tokens[-1][0]) else tokens[0][1]
    keys = tokens[0][1] if ".cross_attention." in f".{step.name}." else queries
    rows = queries if axes[-2] in TOKEN_AXES and step.shape[-2] == len(queries) else ()
    return rows, keys if axes[-1] == "keys" and step.shape[-1] == len(keys) else ()


def _after_target(step: TraceStep, name: str) -> bool:
    """Whether a step comes after the second input sequence was embedded."""
    target = step.trace.inputs.get(name)
    for each in step.trace.tape.steps:
        if any(tensor is target for tensor in each.input_tensors):
            return True
        if any(part is step.step for part in each.walk()):
            return False
    return False


def not_a_number(x: float) -> str | None:
    """The text for NaN and the infinities, which are off the color scale; None for finite numbers."""
    if math.isfinite(x):
        return None
    return "NaN" if math.isnan(x) else "∞" if x > 0 else "−∞"


def not_finite_text(value: Tensor) -> str:
    """The count of NaN and infinities of a tensor, such as `21 −∞`; empty if all are finite."""
    counts = {"NaN": value.isnan(), "∞": value == torch.inf, "−∞": value == -torch.inf}
    return ", ".join(f"{int(found.sum()):,} {name}" for name, found in counts.items() if found.any())


def largest(values: Sequence[Sequence[float]]) -> float:
    """The largest absolute value of the finite numbers, which gets the strongest color."""
    numbers = torch.tensor(values, dtype=torch.float64, device="cpu").abs()
    finite = numbers[numbers.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


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
    """One step: its formula, its symbols, its value and, if there is one, its gradient."""
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
    """A matrix of numbers in color by size: warm above zero, cold below; NaN and infinities have separate colors."""
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
    """The shape of the selected part of a step, and of the whole if that is more."""
    part, whole = shape_text(step.value_shape), shape_text(step.shape)
    return part if part == whole else f"{part} of {whole}"


def size_text(value: Tensor) -> str:
    """The range of a tensor, and how many of its numbers are not finite."""
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
    tables = [matrix_table(window.values, window.rows, window.columns, window.title) for window in shown]
    left = value.numel() - sum(len(row) for window in shown for row in window.values)
    more = [Text(f"  and {left:,} more numbers")] if left else []
    return [*(Padding(table, (0, 0, 0, 2)) for table in tables), *more]


def _color(x: float, most: float) -> Style:
    if special := not_a_number(x):
        return Style(bgcolor=_APART[special], color="white", bold=True)
    if not most or x == 0:
        return Style.null()
    strength = abs(x) / most
    red, green, blue = (round(245 - strength * (245 - channel)) for channel in (_WARM if x > 0 else _COLD))
    return Style(bgcolor=f"rgb({red},{green},{blue})", color="white" if strength > _STRONG else "black")
