"""Where one number comes from: its arithmetic, and that of the numbers in it, down to the weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.errors import TapeError
from glassformer.steps import Step

_MOST = 16  # entries of one input that are weighed against those of the others
Origin = Callable[[Tensor], tuple[str, Step | None]]  # what a tensor is called, and the step that made it


@dataclass(frozen=True)
class Cell:
    """One number: what it is called, where it stands, how it was made, and the numbers that count most in it."""

    name: str
    index: tuple[int, ...]
    text: str
    value: float
    parts: tuple["Cell", ...] = ()

    def lines(self, depth: int = 0) -> Iterator[str]:
        """One line for this number, then one for each number in it, further in."""
        place = f"{self.name}[{', '.join(map(str, self.index))}]"
        yield "  " * depth + f"{place} = {self.text}"
        for part in self.parts:
            yield from part.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def maker(step: Step) -> Step:
    """The innermost step that made a step's first output and can write out its arithmetic."""
    while not step.equation.has_cell:
        inner = next((child for child in step.children if child.kept and child.output is step.output), None)
        if inner is None:
            return step
        step = inner
    return step


def full_index(name: str, value: Tensor, index: Sequence[int]) -> tuple[int, ...]:
    """An index with a number for every axis; the axis of a batch of one may be left out."""
    given = tuple(index)
    if len(given) == value.dim() - 1 and value.shape[0] == 1:
        given = (0, *given)
    if len(given) != value.dim():
        raise TapeError(f"{name} has shape {list(value.shape)}: give {value.dim()} numbers, not {len(index)}")
    for axis, (place, size) in enumerate(zip(given, value.shape, strict=True)):
        if not -size <= place < size:
            raise TapeError(
                f"{name} has shape {list(value.shape)}: {place} is not on axis {axis}, wanted 0 to {size - 1}"
            )
    return tuple(place % size for place, size in zip(given, value.shape, strict=True))


def written(step: Step, index: tuple[int, ...]) -> str:
    """How a step made the number at an index; a number that was only read stands for itself."""
    inner, value = maker(step), number(step.output[index].detach())
    text = inner.equation.arithmetic(index, inner.inputs) if inner.equation.has_cell else value
    return value if text == value else f"{text} = {value}"


@torch.no_grad()
def explain(name: str, step: Step, index: tuple[int, ...], origin: Origin, depth: int = 0, width: int = 3) -> Cell:
    """A number and, `depth` steps back, the numbers that count most in it, `width` of them at each step.

    A number that several others are made of is followed where it is met first.
    """
    return _Explaining(origin, width).cell(name, step, index, depth)


class _Explaining:
    """One explanation under way, which remembers what it has explained."""

    def __init__(self, origin: Origin, width: int) -> None:
        self.origin, self.width = origin, width
        self.known: set[tuple[str, tuple[int, ...]]] = set()

    def cell(self, name: str, step: Step, index: tuple[int, ...], depth: int) -> Cell:
        text, value = written(step, index), float(step.output.detach()[index])
        if depth <= 0 or (name, index) in self.known:
            return Cell(name, index, text, value)
        self.known.add((name, index))
        heavy = _weightiest(step, index)
        made = [row for row in heavy if self.origin(row[0])[1] is not None]  # weights stand in the arithmetic already
        parts = [self._part(tensor, place, depth - 1) for tensor, place in (made or heavy)[: self.width]]
        return Cell(name, index, text, value, tuple(parts))

    def _part(self, tensor: Tensor, index: tuple[int, ...], depth: int) -> Cell:
        name, step = self.origin(tensor)
        if step is not None and step.kept and step.outputs[0] is tensor:
            return self.cell(name, step, index, depth)
        value = float(tensor.detach()[index])
        return Cell(name, index, number(value), value)


def _weightiest(step: Step, index: tuple[int, ...]) -> list[tuple[Tensor, tuple[int, ...]]]:
    """The entries of a step's inputs that contribute most to one output: slope times value, by the gradient rule."""
    inner = maker(step)
    seeds = [torch.zeros_like(output) for output in inner.output_tensors]
    seeds[0][index] = 1
    slopes = inner.equation.vjp(inner.inputs, inner.output_tensors, seeds) or {}
    found: list[tuple[float, Tensor, tuple[int, ...]]] = []
    for name, slope in slopes.items():
        for tensor, part in zip(_as_list(inner.inputs[name]), _as_list(slope), strict=False):
            share = (part.sum_to_size(tensor.shape) * tensor).nan_to_num(0, 0, 0).abs().flatten()
            for weight, place in zip(*(t.tolist() for t in share.topk(min(_MOST, len(share)))), strict=True):
                if weight > 0:
                    found.append((weight, tensor, _unflatten(place, tensor.shape)))
    return [(tensor, place) for _, tensor, place in sorted(found, key=lambda row: -row[0])]


def _unflatten(place: int, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(place, device="cpu"), shape))


def _as_list(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, (list, tuple)) else []
