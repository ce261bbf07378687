"""The part of a large tensor that is shown: a corner of each matrix, with labels for its axes."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.probes.names import TOKEN_AXES
from glassformer.probes.trace import TraceStep


@dataclass(frozen=True)
class MatrixWindow:
    """A matrix of a step's value: where it begins, the part that is shown, and what rows and columns are called."""

    index: tuple[int, ...]
    start: tuple[int, int]
    values: list[list[float]]
    shape: tuple[int, int]
    rows: Sequence[str]
    columns: Sequence[str]
    title: str


def windows(step: TraceStep, value: Tensor, rows: int, columns: int, most: int) -> Iterator[MatrixWindow]:
    """The first matrices of a value that belongs to a step, at most `rows` by `columns` of each."""
    step_shape, axes = value.shape, step.axes
    offset = [step.starts.get(axis, 0) for axis in range(value.dim())]
    flat = value.detach().double().cpu().reshape((1,) * (2 - min(2, value.dim())) + tuple(step_shape))
    leading = list(itertools.product(*map(range, flat.shape[:-2])))
    names = step_labels(step)
    for index in leading[:most]:
        matrix = flat[index]
        begin = tuple(a + b for a, b in zip(index, offset, strict=False))
        title = ", ".join(f"{word.removesuffix('s')} {n}" for word, n in zip(axes, begin, strict=False))
        first = (offset[-2] if value.dim() > 1 else 0, offset[-1] if offset else 0)
        yield MatrixWindow(
            begin if value.dim() > 2 else (),
            first,
            matrix[:rows, :columns].tolist(),
            (matrix.shape[0], matrix.shape[1]),
            names[0][first[0] :] if value.dim() > 1 else (),
            names[1],
            title,
        )


def step_labels(step: TraceStep) -> tuple[Sequence[str], Sequence[str]]:
    """The tokens that the rows and the columns of a step's value stand for, where they are known."""
    tokens = list(step.trace.tokens.items())
    axes = step.axes
    if not tokens or len(axes) < 2:
        return (), ()
    own = tokens[-1] if len(tokens) == 1 or _after_target(step, tokens[-1][0]) else tokens[0]
    keys = tokens[0] if ".cross_attention." in f".{step.name}." else own
    rows = own[1] if axes[-2] in TOKEN_AXES and step.shape[-2] == len(own[1]) else ()
    columns = keys[1] if axes[-1] == "keys" and step.shape[-1] == len(keys[1]) else ()
    return rows, columns


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
    """How NaN and the infinities are written, which no color of a scale stands for; None for finite numbers."""
    if math.isfinite(x):
        return None
    return "NaN" if math.isnan(x) else "∞" if x > 0 else "−∞"


def not_finite_text(value: Tensor) -> str:
    """How many numbers of a tensor are NaN or infinite, such as `21 −∞`; nothing if all are finite."""
    counts = {"NaN": value.isnan(), "∞": value == torch.inf, "−∞": value == -torch.inf}
    return ", ".join(f"{int(found.sum()):,} {name}" for name, found in counts.items() if found.any())


def largest(values: Sequence[Sequence[float]]) -> float:
    """The largest size of the finite numbers, which gets the strongest color."""
    numbers = torch.tensor(values, dtype=torch.float64, device="cpu").abs()
    finite = numbers[numbers.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0
