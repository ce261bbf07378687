"""The arithmetic of one number, and of the numbers it was computed from, down to the weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.errors import TapeError
from glassformer.probes.contributions import Contribution, maker, operands
from glassformer.steps import Step

Origin = Callable[[Tensor], tuple[str, Step | None]]  # the name of a tensor, and the step that made it


@dataclass(frozen=True)
class Cell:
    """One number: its tensor and index, its arithmetic, and the numbers that contribute most to it.

    A part has the letter it is in the equation, and its share in the number as `probes.contributions` defines it.
    """

    name: str
    index: tuple[int, ...]
    text: str
    value: float
    parts: tuple["Cell", ...] = ()
    symbol: str = ""
    share: float = 1.0

    def lines(self, depth: int = 0) -> Iterator[str]:
        """One line for this number, then one for each of its parts, indented."""
        yield "  " * depth + f"{self.name}[{', '.join(map(str, self.index))}] = {self.text}"
        for part in self.parts:
            yield from part.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def full_index(name: str, value: Tensor, index: Sequence[int]) -> tuple[int, ...]:
    """A non-negative index for every axis; the axis of a batch of one may be left out."""
    given = tuple(index)
    if len(given) == value.dim() - 1 and value.shape[0] == 1:
        given = (0, *given)
    if len(given) != value.dim():
        raise TapeError(f"{name} has shape {list(value.shape)}: give {value.dim()} numbers, not {len(index)}")
    for axis, (i, size) in enumerate(zip(given, value.shape, strict=True)):
        if not -size <= i < size:
            raise TapeError(f"{name} has shape {list(value.shape)}: {i} is not on axis {axis}, wanted 0 to {size - 1}")
    return tuple(i % size for i, size in zip(given, value.shape, strict=True))


def written(step: Step, index: tuple[int, ...]) -> str:
    """The arithmetic of the number at an index; the number itself where it was only copied."""
    inner, value = maker(step), number(step.output[index].detach())
    text = inner.equation.arithmetic(index, inner.inputs) if inner.equation.has_cell else value
    return value if text == value else f"{text} = {value}"


def is_fixed(tensor: Tensor, origin: Origin) -> bool:
    """Whether a step computed a tensor from settings alone, such as a mask or the frequencies of rotary positions."""
    step = origin(tensor)[1]
    if step is None:
        return False
    floats = [each for each in step.input_tensors if each.is_floating_point()]
    given = [each for each in floats if origin(each)[1] is None]
    return not given and all(is_fixed(each, origin) for each in floats)


@torch.no_grad()
def explain(
    name: str,
    step: Step,
    index: tuple[int, ...],
    origin: Origin,
    depth: int = 0,
    width: int = 3,
    weights: bool = False,
) -> Cell:
    """A number and, `depth` steps back, its largest contributions, `width` of them at each step.

    A number that contributes to several others is followed only where it appears first. With `weights`, the largest
    contributions of parameters, inputs and fixed numbers are parts too, `width` of them beside those of other steps.
    """
    known: set[tuple[str, tuple[int, ...]]] = set()

    def made(tensor: Tensor) -> bool:
        return origin(tensor)[1] is not None and not is_fixed(tensor, origin)

    def cell(name: str, step: Step, index: tuple[int, ...], depth: int, symbol: str = "", share: float = 1.0) -> Cell:
        text, value = written(step, index), float(step.output.detach()[index])
        if depth <= 0 or (name, index) in known:
            return Cell(name, index, text, value, (), symbol, share)
        known.add((name, index))
        every = operands(step, index)
        found = every.largest(width, made)  # weights are in the arithmetic already
        if weights or not found:
            found += every.largest(width, lambda tensor: not made(tensor))
        parts = tuple(part(every[at], depth - 1) for at in found if every.fractions[at] != 0)
        return Cell(name, index, text, value, parts, symbol, share)

    def part(operand: Contribution, depth: int) -> Cell:
        name, step = origin(operand.tensor)
        if step is not None and step.kept and step.outputs[0] is operand.tensor:
            return cell(name, step, operand.index, depth, operand.symbol, operand.share)
        return Cell(name, operand.index, number(operand.value), operand.value, (), operand.symbol, operand.share)

    return cell(name, step, index, depth)
