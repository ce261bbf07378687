"""A trace as data for pages: its equations and steps, windows of its matrices, the arithmetic of a cell, paths back."""

import math
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from glassformer.equation import AnyEquation
from glassformer.errors import TapeError
from glassformer.probes.cells import Cell, full_index
from glassformer.probes.trace import BoundSymbol, Trace, TraceStep
from glassformer.views.mathml import gradient_symbols, marked_mathml

Number = float | str  # NaN and infinities, which JSON lacks, by their JavaScript names


class SymbolData(msgspec.Struct, frozen=True):
    """A letter of an equation."""

    name: str
    written: str
    role: str
    shape: str
    meaning: str


class EquationData(msgspec.Struct, frozen=True):
    """An equation as a page shows it."""

    latex: str
    mathml: str
    rule_latex: str | None
    rule_mathml: str | None
    meaning: str
    intuition: str
    symbols: list[SymbolData]


class ValueData(msgspec.Struct, frozen=True):
    """A letter with its value in one step: a tensor's shape and what made it, or a setting as text."""

    name: str
    source: str
    step: bool
    shape: list[int] | None
    value: str | None
    gradient: bool


class StepData(msgspec.Struct, frozen=True):
    """A step without its numbers."""

    name: str
    path: str
    depth: int
    parent: int | None
    equation: str
    shape: list[int]
    axes: list[str]
    labels: list[str | None]
    operations: int
    bytes: int
    nan: int
    infinite: int
    gradient: bool
    symbols: list[ValueData]


class RunData(msgspec.Struct, frozen=True):
    """A run without its numbers."""

    kind: str
    loss: Number | None
    tokens: dict[str, list[str]]
    ids: dict[str, list[int]]
    output: str
    equations: dict[str, EquationData]
    steps: list[StepData]


@dataclass(frozen=True)
class TensorName:
    """A tensor of a run: a step, a letter of its equation, the first output if empty, and forward or backward."""

    step: str
    symbol: str = ""
    direction: str = "forward"


@dataclass(frozen=True)
class MatrixPart:
    """A part of a matrix."""

    top: int
    left: int
    height: int
    width: int


def run_data(trace: Trace) -> RunData:
    """Everything about a run but its numbers."""
    equations = {step.equation.name: step.equation for step in trace.steps}
    parents: list[int] = []
    steps: list[StepData] = []
    for position, step in enumerate(trace.steps):
        del parents[step.depth :]
        steps.append(_step_data(trace, step, parents[-1] if parents else None))
        parents.append(position)
    return RunData(
        kind="other",
        loss=None if trace.loss is None else plain(float(trace.loss)),
        tokens={name: list(words) for name, words in trace.tokens.items()},
        ids={n: v.flatten().tolist() for n, v in trace.inputs.items() if n in trace.tokens and isinstance(v, Tensor)},
        output=trace.source_of(trace.output),
        equations={name: equation_data(equation) for name, equation in equations.items()},
        steps=steps,
    )


def tensor_of(trace: Trace, which: TensorName) -> Tensor:
    """A tensor of a run, or the loss's gradient with respect to it."""
    step = trace[which.step]
    found: object = step.output
    if which.symbol:
        bound = {each.symbol.name: each.value for each in step.symbols}
        if which.symbol not in bound:
            raise TapeError(f"{which.step} has no {which.symbol}; it has {', '.join(bound)}")
        found = bound[which.symbol]
    if not isinstance(found, Tensor):
        raise TapeError(f"{which.symbol} of {which.step} is not a tensor")
    if which.direction == "forward":
        return found.detach()
    gradient = trace.gradient_of(found)
    if gradient is None:
        raise TapeError(
            f"there is no gradient of {which.symbol or which.step}: the run did not go backward from a loss"
        )
    return gradient


def slice_of(trace: Trace, which: TensorName, leading: tuple[int, ...], part: MatrixPart) -> bytes:
    """A window of the matrix at `leading` of a tensor, as little-endian float32."""
    value = tensor_of(trace, which)
    matrix = value.reshape((1,) * (2 - min(2, value.dim())) + tuple(value.shape))
    lead = matrix.shape[:-2]
    if len(leading) != len(lead) or any(not 0 <= i < n for i, n in zip(leading, lead, strict=True)):
        raise TapeError(
            f"{which.step} has shape {list(value.shape)}: leading is {list(leading)}, wanted {len(lead)} indices"
        )
    rows = slice(part.top, part.top + part.height)
    found = matrix[leading][rows, part.left : part.left + part.width]
    return found.to(torch.float32).cpu().contiguous().numpy().tobytes()


def cell(trace: Trace, which: TensorName, index: tuple[int, ...]) -> dict[str, object]:
    """The arithmetic of one number."""
    value = tensor_of(trace, which)
    at = full_index(which.step, value, index)
    found = plain(float(value[at]))
    text = trace.cell(which.step, *at) if which.direction == "forward" else str(found)
    return {"step": which.step, "index": at, "text": text, "latex": "", "value": found, "operands": [], "more": 0}


def path(trace: Trace, step: str, index: tuple[int, ...], depth: int, width: int) -> dict[str, object]:
    """One number as a tree of its largest contributions."""
    return _tree(trace.explain(step, *index, depth=depth, width=width))


def plain(value: float) -> Number:
    """A number for JSON."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _tree(found: Cell) -> dict[str, object]:
    parts = [_tree(part) for part in found.parts]
    return {"step": found.name, "index": found.index, "value": plain(found.value), "text": found.text, "parts": parts}


def equation_data(equation: AnyEquation) -> EquationData:
    """An equation for a page."""
    rule = equation.gradient
    return EquationData(
        latex=equation.latex,
        mathml=marked_mathml(equation.latex, equation.symbols),
        rule_latex=None if rule is None else rule.latex,
        rule_mathml=None if rule is None else marked_mathml(rule.latex, gradient_symbols(equation.symbols)),
        meaning=equation.meaning,
        intuition=equation.intuition,
        symbols=[SymbolData(s.name, s.written, s.role, s.shape, s.meaning) for s in equation.symbols],
    )


def _step_data(trace: Trace, step: TraceStep, parent: int | None) -> StepData:
    value = step.step.output.detach() if isinstance(step.output, Tensor) else torch.zeros(())
    return StepData(
        name=step.name,
        path=step.path,
        depth=step.depth,
        parent=parent,
        equation=step.equation.name,
        shape=list(step.shape),
        axes=list(step.axes),
        labels=[None] * len(step.shape),
        operations=step.cost.flops,
        bytes=step.cost.bytes,
        nan=int(value.isnan().sum()),
        infinite=int(value.isinf().sum()),
        gradient=trace.gradient_of(step.output) is not None,
        symbols=[_value_data(trace, bound) for bound in step.symbols],
    )


def _value_data(trace: Trace, bound: BoundSymbol) -> ValueData:
    value = bound.value
    made = isinstance(value, Tensor) and trace.origin(value)[1] is not None
    shape = list(value.shape) if isinstance(value, Tensor) else None
    text = None if isinstance(value, Tensor) or value is None else str(value)
    return ValueData(bound.symbol.name, bound.source, made, shape, text, bound.gradient is not None)
