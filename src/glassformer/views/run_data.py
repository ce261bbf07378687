"""A trace as data for pages: its equations, its steps, and windows of its matrices."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

import msgspec
import torch
from torch import Tensor

from glassformer.equation import AnyEquation, Cost
from glassformer.equations.attention import apply_mask
from glassformer.errors import TapeError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.probes.narrowing import product_of
from glassformer.probes.trace import BoundSymbol, Trace, TraceStep
from glassformer.views.axis_labels import AxisLabels
from glassformer.views.mathml import gradient_symbols, marked_mathml
from glassformer.views.terminal import number_text

Number = float | str  # NaN and infinities, which JSON lacks, by their JavaScript names


class SymbolData(msgspec.Struct, frozen=True):
    """A letter of an equation."""

    name: str
    written: str
    role: str
    shape: str
    meaning: str


class ProductData(msgspec.Struct, frozen=True):
    """The letters of two matrices that an equation multiplies, and whether it transposes the second."""

    left: str
    right: str
    transposed: bool


class EquationData(msgspec.Struct, frozen=True):
    """An equation as a page shows it."""

    latex: str
    mathml: str
    rule_latex: str | None
    rule_mathml: str | None
    meaning: str
    intuition: str
    file: str
    line: int
    lesson: str | None
    product: ProductData | None
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


class BadStep(msgspec.Struct, frozen=True):
    """The first step whose output is not finite, where no mask made it so."""

    step: str
    nan: int
    infinite: int


class RunData(msgspec.Struct, frozen=True):
    """A run without its numbers."""

    kind: str
    loss: Number | None
    tokens: dict[str, list[str]]
    ids: dict[str, list[int]]
    bad: BadStep | None
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


def run_data(trace: Trace, lessons: Mapping[str, str] | None = None) -> RunData:
    """Everything about a run but its numbers; `lessons` names the lesson of an equation, for links."""
    equations = {step.equation.name: step.equation for step in trace.steps}
    parents: list[int] = []
    steps: list[StepData] = []
    described = _Described(trace)
    for position, step in enumerate(trace.steps):
        del parents[step.depth :]
        steps.append(described.step(step, parents[-1] if parents else None))
        parents.append(position)
    return RunData(
        kind=kind_of(trace),
        loss=None if trace.loss is None else plain(float(trace.loss)),
        tokens={name: list(words) for name, words in trace.tokens.items()},
        ids={n: v.flatten().tolist() for n, v in trace.inputs.items() if n in trace.tokens and isinstance(v, Tensor)},
        bad=described.bad,
        output=trace.source_of(trace.output),
        equations={name: equation_data(each, (lessons or {}).get(name)) for name, each in equations.items()},
        steps=steps,
    )


def kind_of(trace: Trace) -> str:
    """What a model reads and writes: causal, seq2seq, encoder, image or other."""
    if isinstance(trace.model, EncoderDecoder):
        return "seq2seq"
    if isinstance(trace.model, CausalLM):
        return "causal"
    if "pixel_values" in trace.inputs:
        return "image"
    return "encoder" if "ids" in trace.inputs else "other"


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


def plain(value: float) -> Number:
    """A number for JSON."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def equation_data(equation: AnyEquation, lesson: str | None = None) -> EquationData:
    """An equation for a page."""
    rule, product = equation.gradient, product_of(equation)
    code = inspect.unwrap(equation.fn).__code__
    return EquationData(
        latex=equation.latex,
        mathml=marked_mathml(equation.latex, equation.symbols),
        rule_latex=None if rule is None else rule.latex,
        rule_mathml=None if rule is None else marked_mathml(rule.latex, gradient_symbols(equation.symbols)),
        meaning=equation.meaning,
        intuition=equation.intuition,
        file="/".join(PurePath(code.co_filename).parts[-3:]),
        line=code.co_firstlineno,
        lesson=lesson,
        product=None if product is None else ProductData(product.left, product.right, product.transposed),
        symbols=[SymbolData(s.name, s.written, s.role, s.shape, s.meaning) for s in equation.symbols],
    )


class _Described:
    """Describes the steps of a trace in their order; finds the first bad one on the way."""

    def __init__(self, trace: Trace) -> None:
        self.bad: BadStep | None = None
        self._trace = trace
        self._labels = AxisLabels(trace)
        self._masked: set[int] = set()  # tensors in which a mask put minus infinity
        self._costs: dict[tuple[object, ...], Cost] = {}

    def step(self, step: TraceStep, parent: int | None) -> StepData:
        """One step."""
        nan, infinite = self._not_finite(step)
        cost = self._cost(step)
        return StepData(
            name=step.name,
            path=step.path,
            depth=step.depth,
            parent=parent,
            equation=step.equation.name,
            shape=list(step.shape),
            axes=list(step.axes),
            labels=self._labels.of(step.output),
            operations=cost.flops,
            bytes=cost.bytes,
            nan=nan,
            infinite=infinite,
            gradient=self._trace.gradient_of(step.output) is not None,
            symbols=[self._value(bound) for bound in step.symbols],
        )

    def _cost(self, step: TraceStep) -> Cost:
        """Its cost, which is the same for the same shapes and settings: layers are alike."""
        values = step.step.inputs.values()
        key = (step.equation.name, *(tuple(v.shape) if isinstance(v, Tensor) else str(v) for v in values))
        if any(isinstance(value, (list, tuple)) for value in values):
            return step.cost
        if key not in self._costs:
            self._costs[key] = step.cost
        return self._costs[key]

    def _not_finite(self, step: TraceStep) -> tuple[int, int]:
        value = step.output
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return 0, 0
        if any(id(tensor) in self._masked for tensor in step.step.input_tensors) or makes_masks(step.equation):
            self._masked.add(id(value))
        if math.isfinite(float(value.detach().sum())):  # one pass where all is well
            return 0, 0
        nan, infinite = int(value.isnan().sum()), int(value.isinf().sum())
        meant = int((value == -torch.inf).sum()) if id(value) in self._masked else 0
        if self.bad is None and nan + infinite > meant and not step.step.children:
            self.bad = BadStep(step.name, nan, infinite - meant)
        return nan, infinite

    def _value(self, bound: BoundSymbol) -> ValueData:
        value = bound.value
        made = isinstance(value, Tensor) and self._trace.origin(value)[1] is not None
        shape = list(value.shape) if isinstance(value, Tensor) else None
        text = None if isinstance(value, Tensor) or value is None else _setting(value)
        return ValueData(bound.symbol.name, bound.source, made, shape, text, bound.gradient is not None)


def makes_masks(equation: AnyEquation) -> bool:
    """Whether an equation writes minus infinity where a query must not attend."""
    return equation is apply_mask or equation.fn.__module__.endswith("masks")


def _setting(value: object) -> str:
    return f"{len(value)} tensors" if isinstance(value, (list, tuple)) else number_text(value)
