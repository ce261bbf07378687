"""One number of a run as data for pages: its arithmetic with its operands, who sent its gradient, its path back."""

from collections.abc import Sequence

import msgspec
from torch import Tensor

from glassformer.arithmetic import number, total
from glassformer.errors import TapeError
from glassformer.probes.cells import Cell, full_index, is_fixed
from glassformer.probes.contributions import Contribution, EntrySet, Operands, Sent, maker, operands, sent_back
from glassformer.probes.trace import Trace, TraceStep
from glassformer.views.arithmetic_latex import arithmetic_latex
from glassformer.views.operand_links import operands_in_text
from glassformer.views.run_data import Number, TensorName, plain, tensor_of

MOST = 64  # operands listed, beside those that the arithmetic writes out


class OperandData(msgspec.Struct, frozen=True):
    """An entry that counts in a number.

    `step` says whether its source is a step of this run, `fixed` whether that step computed it from settings alone.
    """

    symbol: str
    source: str
    step: bool
    index: tuple[int, ...]
    value: Number
    share: float
    fixed: bool


class BoxData(msgspec.Struct, frozen=True):
    """The first and last index of the entries of one letter that count: a row, a column, or one entry."""

    symbol: str
    source: str
    first: tuple[int, ...]
    last: tuple[int, ...]
    count: int


class LinkData(msgspec.Struct, frozen=True):
    """The characters of a text that are a number, and which operand it is."""

    start: int
    end: int
    operand: int


class SentData(msgspec.Struct, frozen=True):
    """What one step sends back: by the rule of its equation, from the gradients of its output, to one of its letters.

    `operand` is the position of its largest operand in the list of all.
    """

    step: str
    equation: str
    symbol: str
    value: Number
    text: str
    operand: int | None


class CellData(msgspec.Struct, frozen=True):
    """One number: `by` is the step whose arithmetic it is, which may be a part of the one asked for."""

    step: str
    index: tuple[int, ...]
    direction: str
    by: str
    text: str
    latex: str
    value: Number
    operands: list[OperandData]
    more: int
    links: list[LinkData]
    boxes: list[BoxData]
    sent: list[SentData]


class PathData(msgspec.Struct, frozen=True):
    """A number as a tree of its largest contributions.

    `made` says whether a step of this run made it, `fixed` whether that step did so from settings alone.
    """

    step: str
    index: tuple[int, ...]
    value: Number
    share: float
    symbol: str
    text: str
    made: bool
    fixed: bool
    parts: list["PathData"]


def cell(trace: Trace, which: TensorName, index: tuple[int, ...]) -> CellData:
    """The arithmetic of one number and its operands; backward, who sent the gradient."""
    step = trace[which.step]
    at = full_index(step.name, step.step.output, index)
    if which.direction == "backward":
        return _backward(trace, step, at, tensor_of(trace, TensorName(step.name, "", "backward")))
    return _forward(trace, step, at)


def path(trace: Trace, step: str, index: tuple[int, ...], depth: int, width: int) -> PathData:
    """One number as a tree of its largest contributions, `width` made by steps and as many given."""
    return _tree(trace, trace.explain(step, *index, depth=depth, width=width, weights=True), {})


def _forward(trace: Trace, step: TraceStep, at: tuple[int, ...]) -> CellData:
    inner, text = maker(step.step), trace.cell(step.name, *at)
    every = operands(step.step, at) if step.step.output.is_floating_point() else Operands.none()
    written = operands_in_text(inner, at, text, every)
    shown = list(dict.fromkeys([*every.largest(MOST), *(position for *_, position in written)]))
    where = {position: order for order, position in enumerate(shown)}
    return CellData(
        step=step.name,
        index=at,
        direction="forward",
        by=trace.names[inner.path],
        text=text,
        latex=arithmetic_latex(text),
        value=plain(float(step.step.output.detach()[at])),
        operands=[_operand(trace, every[position]) for position in shown],
        more=len(every) - len(shown),
        links=[LinkData(start, end, where[position]) for start, end, position in written],
        boxes=[_box(trace, each) for each in every.sets],
        sent=[],
    )


def _backward(trace: Trace, step: TraceStep, at: tuple[int, ...], gradient: Tensor) -> CellData:
    value = float(gradient[at])
    if trace.gradients is None:
        raise TapeError("the run did not go backward from a loss")
    sent = sent_back(trace.tape.steps, trace.gradients, step.step.output, at)
    listed: list[OperandData] = []
    firsts: list[int | None] = []
    for each in sent:
        largest = each.operands.largest(MOST)
        firsts.append(len(listed) if largest else None)
        listed += [_operand(trace, each.operands[position]) for position in largest]
    order = sorted(range(len(listed)), key=lambda position: -abs(listed[position].share))
    where = {position: rank for rank, position in enumerate(order)}
    text = _sum_of_sent(trace, sent, value)
    return CellData(
        step=step.name,
        index=at,
        direction="backward",
        by=step.name,
        text=text,
        latex=arithmetic_latex(text),
        value=plain(value),
        operands=[listed[position] for position in order],
        more=sum(len(each.operands) for each in sent) - len(listed),
        links=[],
        boxes=[_box(trace, found) for each in sent for found in each.operands.sets],
        sent=[
            SentData(_name(trace, each), each.step.equation.name, each.symbol, plain(each.value), each.text, first)
            for each, first in zip(sent, [None if p is None else where[p] for p in firsts], strict=True)
        ],
    )


def _sum_of_sent(trace: Trace, sent: Sequence[Sent], value: float) -> str:
    """A gradient as the sum of what each consumer sent: `0.12 (from layers.0.attention.weights) + …`."""
    if not sent:
        return number(value)
    terms = [f"{number(each.value)} (from {_name(trace, each)})" for each in sent]
    return f"{total(terms, [each.value for each in sent])} = {number(value)}"


def _name(trace: Trace, sent: Sent) -> str:
    return trace.names[sent.step.path]


def _operand(trace: Trace, operand: Contribution) -> OperandData:
    name, step = trace.origin(operand.tensor)
    first = step is not None and step.outputs[0] is operand.tensor
    fixed = is_fixed(operand.tensor, trace.origin)
    return OperandData(operand.symbol, name, first, operand.index, plain(operand.value), operand.share, fixed)


def _box(trace: Trace, found: EntrySet) -> BoxData:
    first, last = found.box
    return BoxData(found.symbol, trace.source_of(found.tensor), first, last, len(found.indices))


def _tree(trace: Trace, found: Cell, fixed: dict[str, bool | None]) -> PathData:
    """A tree of numbers; `fixed` has what is known of each name already, None where no step has it."""
    if found.name not in fixed:
        made = found.name in trace.names
        fixed[found.name] = is_fixed(trace[found.name].step.output, trace.origin) if made else None
    return PathData(
        step=found.name,
        index=found.index,
        value=plain(found.value),
        share=found.share,
        symbol=found.symbol,
        text=found.text,
        made=fixed[found.name] is not None,
        fixed=bool(fixed[found.name]),
        parts=[_tree(trace, part, fixed) for part in sorted(found.parts, key=lambda part: -abs(part.share))],
    )
