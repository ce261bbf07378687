"""The arithmetic that a file carries: of numbers that a reader is likely to ask for, worked out ahead.

A page without a server cannot work out any number, so a file has the whole arithmetic, with operands, along the paths
back from the most likely prediction and at the first numbers of every step, and the text alone of some more. Which
entries of the inputs count in a number is known for all numbers of a step, as rows, columns and single entries.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
import torch
from torch import Tensor

from glassformer.probes.cells import written
from glassformer.probes.contributions import EntrySet, maker, operands
from glassformer.probes.trace import Trace, TraceStep
from glassformer.views.cell_data import CellData, cell
from glassformer.views.run_data import TensorName

PATH_CELLS = 160  # numbers on the paths back from the prediction
WIDTH = 2  # operands that are followed from each of them
FIRST_CELLS = 300  # numbers at the beginning of the steps, at least one of each
BLOCK = 8  # rows and columns of each matrix whose text comes before that of others
TEXTS = 8000  # numbers whose text alone is in the file
OPERANDS = 24  # of a number, the largest, beside those that its text writes out

Index = tuple[int, ...]
Axes = list[int | tuple[int, int]]  # for each axis the axis of the index that it follows, or the first and last


class BoxPattern(msgspec.Struct, frozen=True):
    """Where the entries of one letter stand that count in the number at any index."""

    symbol: str
    source: str
    axes: Axes


class StepCells(msgspec.Struct, frozen=True):
    """What a file knows of the numbers of one step: who computes them, cells and texts by index, their operands."""

    by: str
    cells: dict[str, CellData]
    texts: dict[str, str]
    pattern: list[BoxPattern] | None


class _Patterns:
    """Which entries count in a number as a function of its index, found once for steps that are alike."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[tuple[object, ...], list[tuple[str, Axes]] | None] = {}

    def of(self, step: TraceStep) -> list[BoxPattern] | None:
        """The pattern of a step, or None where there is none."""
        inner = maker(step.step)
        if not step.step.output.is_floating_point() or any(isinstance(v, (list, tuple)) for v in inner.inputs.values()):
            return None
        alike = (
            inner.equation.name,
            *(tuple(v.shape) if isinstance(v, Tensor) else str(v) for v in inner.inputs.values()),
        )
        if alike not in self._known:
            self._known[alike] = _read_pattern([(at, operands(step.step, at).sets) for at in _spread(step.shape)])
        found = self._known[alike]
        source = self._trace.source_of
        return None if found is None else [BoxPattern(name, source(inner.inputs[name]), axes) for name, axes in found]


def file_cells(trace: Trace) -> dict[str, StepCells]:
    """The arithmetic of a trace for a file, by step."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # each number takes little: threads would mostly wait for each other
    try:
        return _file_cells(trace)
    finally:
        torch.set_num_threads(threads)


def _file_cells(trace: Trace) -> dict[str, StepCells]:
    steps = [step for step in trace.steps if isinstance(step.output, Tensor) and step.step.output.numel()]
    found: dict[tuple[str, Index, str], CellData] = {}
    for which, at in _along_paths(trace, steps, found):
        found[which.step, at, which.direction] = _short(cell(trace, which, at))
    first = max(1, FIRST_CELLS // max(1, len(steps)))
    for step, direction in itertools.product(steps, ("forward", "backward")):
        if direction == "backward" and step.gradient is None:
            continue
        for at in itertools.islice(_indices(step), first if direction == "forward" else 1):
            if (step.name, at, direction) not in found:
                found[step.name, at, direction] = _short(cell(trace, TensorName(step.name, "", direction), at))
    texts = TEXTS // max(1, len(steps))
    patterns = _Patterns(trace)
    return {step.name: _step_cells(step, found, texts, patterns) for step in steps}


def _along_paths(
    trace: Trace, steps: Sequence[TraceStep], found: dict[tuple[str, Index, str], CellData]
) -> Iterator[tuple[TensorName, Index]]:
    """The most likely prediction, then the largest operands of each number that was found."""
    known = {step.name for step in steps}
    start = _start(trace)
    waiting = deque([start] if start is not None and start[0] in known else [])
    seen = set(waiting)
    while waiting and len(found) < PATH_CELLS:
        name, at = waiting.popleft()
        yield TensorName(name), at
        parts = [each for each in found[name, at, "forward"].operands if each.step and each.source in known]
        for each in parts[:WIDTH]:
            if (each.source, each.index) not in seen:
                seen.add((each.source, each.index))
                waiting.append((each.source, each.index))


def _start(trace: Trace) -> tuple[str, Index] | None:
    """The largest number of the last row of the first output."""
    output = trace.output
    if not isinstance(output, Tensor) or not output.is_floating_point() or not output.numel() or output.dim() < 1:
        return None
    position = (0, *(n - 1 for n in output.shape[1:-1]))[: output.dim() - 1]
    return trace.source_of(output), (*position, int(output.detach()[position].argmax()))


def _indices(step: TraceStep) -> Iterator[Index]:
    """The indices of a step's output: the first rows and columns of each matrix, from the selected one on."""
    shape = step.shape
    first = [step.starts.get(axis, 0) for axis in range(len(shape))]
    rows, columns = (1, 1, *shape)[-2:]
    for size in range(0, max(rows, columns), BLOCK):
        for lead in itertools.product(
            *([(a + i) % n for i in range(n)] for a, n in zip(first[:-2], shape[:-2], strict=True))
        ):
            for i, j in itertools.product(range(min(rows, size + BLOCK)), range(min(columns, size + BLOCK))):
                if i >= size or j >= size:
                    yield _moved((*lead, *first[-2:]), shape, i, j)


def _moved(lead: Index, shape: Sequence[int], i: int, j: int) -> Index:
    """The index `i` rows down and `j` columns to the right of the first, around the end."""
    if not shape:
        return ()
    last = (lead[-1] + j) % shape[-1]
    return (*lead[:-2], (lead[-2] + i) % shape[-2], last) if len(shape) > 1 else (last,)


def _step_cells(
    step: TraceStep, found: dict[tuple[str, Index, str], CellData], texts: int, patterns: _Patterns
) -> StepCells:
    own = {(at, way): each for (name, at, way), each in found.items() if name == step.name}
    told = {
        _key(at): written(step.step, at) for at in itertools.islice(_indices(step), texts) if (at, "forward") not in own
    }
    cells = {_key(at, way): each for (at, way), each in own.items()}
    return StepCells(step.trace.names[maker(step.step).path], cells, told, patterns.of(step))


def _key(at: Index, direction: str = "forward") -> str:
    return ",".join(map(str, at)) + ("" if direction == "forward" else " backward")


def _short(found: CellData) -> CellData:
    """The cell with its largest operands and those that stand in its text; digits as many as are shown."""
    linked = {link.operand for link in found.links} | {each.operand for each in found.sent if each.operand is not None}
    kept = sorted({*range(min(OPERANDS, len(found.operands))), *linked})
    where = {old: new for new, old in enumerate(kept)}
    replace = msgspec.structs.replace
    return replace(
        found,
        operands=[
            replace(each, value=_digits(each.value, 6), share=_digits(each.share, 4))
            for each in (found.operands[position] for position in kept)
        ],
        more=found.more + len(found.operands) - len(kept),
        links=[replace(link, operand=where[link.operand]) for link in found.links],
        sent=[replace(each, operand=None if each.operand is None else where[each.operand]) for each in found.sent],
    )


def _digits(value: float | str, digits: int) -> float | str:
    return float(f"{value:.{digits}g}") if isinstance(value, float) and math.isfinite(value) else value


def _spread(shape: Sequence[int]) -> list[Index]:
    """Indices of which no two axes are alike, as far as their sizes allow."""
    ends = [lambda axis: 0, lambda axis: 1, lambda axis: axis % 2, lambda axis: axis // 2 % 2]
    return list(dict.fromkeys(tuple(end(axis) * (n - 1) for axis, n in enumerate(shape)) for end in ends))


def _read_pattern(samples: Sequence[tuple[Index, Sequence[EntrySet]]]) -> list[tuple[str, Axes]] | None:
    if len({tuple(each.symbol for each in sets) for _, sets in samples}) != 1:
        return None
    found: list[tuple[str, Axes]] = []
    for position, first in enumerate(samples[0][1]):
        boxes = [(at, sets[position].box) for at, sets in samples]
        axes = [
            _axis([(at, begin[axis], end[axis]) for at, (begin, end) in boxes]) for axis in range(first.tensor.dim())
        ]
        known = [axis for axis in axes if axis is not None]
        if len(known) < len(axes):
            return None
        found.append((first.symbol, known))
    return found


def _axis(ends: Sequence[tuple[Index, int, int]]) -> int | tuple[int, int] | None:
    """What the entries on one axis follow: an axis of the index, or nothing; None where it is neither."""
    if len({(begin, end) for _, begin, end in ends}) == 1:
        return ends[0][1:]
    return next(
        (own for own in range(len(ends[0][0])) if all(begin == end == at[own] for at, begin, end in ends)), None
    )
