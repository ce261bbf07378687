"""The arithmetic of one number, and of the numbers it was computed from, down to the weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import tensors_in
from glassformer.errors import TapeError
from glassformer.steps import Step

_LARGEST = 16  # entries of one input that are compared with those of the others
Origin = Callable[[Tensor], tuple[str, Step | None]]  # the name of a tensor, and the step that made it


@dataclass(frozen=True)
class Cell:
    """One number: its tensor and index, its arithmetic, and the numbers that contribute most to it."""

    name: str
    index: tuple[int, ...]
    text: str
    value: float
    parts: tuple["Cell", ...] = ()

    def lines(self, depth: int = 0) -> Iterator[str]:
        """One line for this number, then one for each of its parts, indented."""
        yield "  " * depth + f"{self.name}[{', '.join(map(str, self.index))}] = {self.text}"
        for part in self.parts:
            yield from part.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def maker(step: Step) -> Step:
    """The outermost part of a step that made its first output and can write out its arithmetic."""
    while not step.equation.has_cell:
        inner = next((child for child in step.children if child.kept and child.output is step.output), None)
        if inner is None:
            return step
        step = inner
    return step


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


@torch.no_grad()
def explain(name: str, step: Step, index: tuple[int, ...], origin: Origin, depth: int = 0, width: int = 3) -> Cell:
    """A number and, `depth` steps back, its largest contributions, `width` of them at each step.

    A number that contributes to several others is followed only where it appears first.
    """
    known: set[tuple[str, tuple[int, ...]]] = set()

    def cell(name: str, step: Step, index: tuple[int, ...], depth: int) -> Cell:
        text, value = written(step, index), float(step.output.detach()[index])
        if depth <= 0 or (name, index) in known:
            return Cell(name, index, text, value)
        known.add((name, index))
        largest = _largest_contributions(step, index)
        made = [row for row in largest if origin(row[0])[1] is not None]  # weights are in the arithmetic already
        return Cell(name, index, text, value, tuple(part(*row, depth - 1) for row in (made or largest)[:width]))

    def part(tensor: Tensor, index: tuple[int, ...], depth: int) -> Cell:
        name, step = origin(tensor)
        if step is not None and step.kept and step.outputs[0] is tensor:
            return cell(name, step, index, depth)
        value = float(tensor.detach()[index])
        return Cell(name, index, number(value), value)

    return cell(name, step, index, depth)


def _largest_contributions(step: Step, index: tuple[int, ...]) -> list[tuple[Tensor, tuple[int, ...]]]:
    """The entries of a step's inputs that contribute most to one output: gradient times value, by the rule."""
    inner = maker(step)
    seeds = [torch.zeros_like(output) for output in inner.output_tensors]
    seeds[0][index] = 1
    gradients = inner.equation.vjp(inner.inputs, inner.output_tensors, seeds) or {}
    found: list[tuple[float, Tensor, tuple[int, ...]]] = []
    for name, gradient in gradients.items():
        for tensor, part in zip(tensors_in(inner.inputs[name]), tensors_in(gradient), strict=False):
            sizes = (part.sum_to_size(tensor.shape) * tensor).nan_to_num(0, 0, 0).abs().flatten()
            for size, flat in zip(*(t.tolist() for t in sizes.topk(min(_LARGEST, len(sizes)))), strict=True):
                if size > 0:
                    at = torch.unravel_index(torch.tensor(flat, device="cpu"), tensor.shape)
                    found.append((size, tensor, tuple(map(int, at))))
    return [(tensor, at) for _, tensor, at in sorted(found, key=lambda row: -row[0])]
