"""The part of an equation's inputs that one of its numbers depends on, by the axes that its shapes name.

An equation treats the entries of a starred axis, such as `*batch`, one by one, so a number needs only its own entry
there; in a product of two matrices it needs only its row of the first and its column of the second. What is left is
small: the rule of a layer of a large model takes about a millisecond for one number.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from glassformer.equation import AnyEquation, tensors_in
from glassformer.equations.embedding import embed
from glassformer.shapes import Parameter, TensorShape

# An axis of a tensor: its name and, among the axes of a starred one, its position from the right; else -1.
AxisKey: TypeAlias = tuple[str, int]
Starts: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """An equation that multiplies two matrices, by its shapes: the letters of both, and whether the second turns."""

    left: str
    right: str
    transposed: bool


@dataclass(frozen=True)
class Narrowed:
    """Inputs narrowed to what one number depends on, its index among what is left, and where each tensor starts."""

    inputs: Mapping[str, object] = field(repr=False)
    index: tuple[int, ...]
    starts: Mapping[tuple[str, int], Starts]  # by letter and position in a sequence
    pins: Mapping[AxisKey, int]
    results: tuple[Parameter, ...] = field(repr=False)

    def of_output(self, which: int, tensor: Tensor) -> Tensor:
        """The same part of a tensor in the shape of an output."""
        return _narrow(tensor, self.start_of_output(which, tensor), self._pinned(which, tensor))

    def start_of_output(self, which: int, tensor: Tensor) -> Starts:
        """Where that part starts."""
        return _starts(axis_keys(self.results[which].shapes, tensor), tensor, self.pins)

    def _pinned(self, which: int, tensor: Tensor) -> list[bool]:
        return [key in self.pins for key in axis_keys(self.results[which].shapes, tensor)]


@functools.cache
def product_of(equation: AnyEquation) -> Product | None:
    """How an equation multiplies two matrices, such as `linear` and `attention_scores`; None if it does not."""
    shapes = {p.name: [(a.name, a.many) for a in p.shapes[0].axes] for p in equation.parameters if p.is_float}
    result = [(axis.name, axis.many) for kind in equation.results[0].shapes[:1] for axis in kind.axes]
    if len(result) < 2 or result[-1][1]:
        return None
    *rows, column = result
    for left, axes in shapes.items():
        if len(axes) < 2 or axes[:-1] != rows or axes[-1][1] or axes[-1] in result:
            continue
        inner = axes[-1]
        rights = {name: other[-2:] for name, other in shapes.items() if set(other[-2:]) == {inner, column}}
        rest = [axis for name, other in shapes.items() if name != left and name not in rights for axis in other]
        if len(rights) == 1 and all(axis == column or axis[0].isdigit() for axis in rest):
            ((right, order),) = rights.items()
            return Product(left, right, order == [column, inner])
    return None


def narrowed(
    equation: AnyEquation,
    inputs: Mapping[str, object],
    output: Tensor,
    index: tuple[int, ...],
    entry: tuple[str, int] | None = None,
) -> Narrowed:
    """What the number at an index of the first output depends on; with `entry`, at an index of that input tensor."""
    kinds = {p.name: p.shapes for p in equation.parameters if p.is_tensor}
    allowed = _independent(equation, inputs, output)
    if entry is None:
        whole, keys = output, axis_keys(equation.results[0].shapes, output)
    else:
        whole = tensors_in(inputs[entry[0]])[entry[1]]
        keys = axis_keys(kinds[entry[0]], whole)
    # one entry that is stretched over an axis meets every number on it
    stretched = entry is not None
    pins = {
        key: at
        for key, at, size in zip(keys, index, whole.shape, strict=True)
        if key in allowed and not (stretched and size == 1)
    }
    starts: dict[tuple[str, int], Starts] = {}

    def part(name: str, value: object, position: int = 0) -> object:
        if isinstance(value, (list, tuple)):
            return type(value)(part(name, item, key) for key, item in enumerate(value))
        if not isinstance(value, Tensor) or name not in kinds:
            return value
        own = axis_keys(kinds[name], value)
        starts[name, position] = _starts(own, value, pins)
        return _narrow(value, starts[name, position], [key in pins for key in own])

    fewer = {name: part(name, value) for name, value in inputs.items()}
    if equation is embed and entry is None:
        starts["E", 0] = _one_row(fewer)
    inside = tuple(0 if key in pins else at for key, at in zip(keys, index, strict=True))
    return Narrowed(fewer, inside, starts, pins, equation.results)


def _one_row(inputs: dict[str, object]) -> Starts:
    """Narrow the table of an embedding to the row that is read: it may have millions of others."""
    table, ids = inputs["E"], inputs["ids"]
    if not isinstance(table, Tensor) or not isinstance(ids, Tensor):
        return (0, 0)
    row = int(ids)
    inputs |= {"E": table.narrow(0, row, 1), "ids": torch.zeros_like(ids)}
    return (row, 0)


def _independent(equation: AnyEquation, inputs: Mapping[str, object], output: Tensor) -> set[AxisKey]:
    """The axes of the output whose entries are computed one by one."""
    starred = [
        {axis.name for shape in p.shapes for axis in shape.axes if axis.many}
        for p in (*equation.parameters, *equation.results)
        if p.is_tensor and (p in equation.results or inputs.get(p.name) is not None)
    ]
    known = {axis.name for shape in equation.results[0].shapes for axis in shape.axes if axis.many}
    if "generator" in inputs or any(names - known for names in starred):  # random numbers are drawn for all at once
        return set()
    keys = axis_keys(equation.results[0].shapes, output)
    product = product_of(equation) is not None
    return {key for key in keys if key[1] >= 0 or (product and key[0])}


def axis_keys(shapes: tuple[TensorShape, ...], tensor: Tensor) -> list[AxisKey]:
    """The axis of an annotation that each dimension of a tensor is; its name is empty where it has none."""
    shape = next((shape for shape in shapes if shape.accepts_type(tensor)), shapes[0])
    several = tensor.dim() - sum(not axis.many for axis in shape.axes)
    keys: list[AxisKey] = []
    for axis in shape.axes:
        if axis.many:
            keys += [("" if axis.name == "..." else axis.name, at) for at in reversed(range(several))]
        else:
            keys.append(("" if axis.size is not None else axis.name, -1))
    return keys


def _starts(keys: list[AxisKey], tensor: Tensor, pins: Mapping[AxisKey, int]) -> Starts:
    return tuple(0 if size == 1 else pins.get(key, 0) for key, size in zip(keys, tensor.shape, strict=True))


def _narrow(tensor: Tensor, starts: Starts, pinned: list[bool]) -> Tensor:
    part = tensor.detach()
    for axis, (start, one) in enumerate(zip(starts, pinned, strict=True)):
        part = part.narrow(axis, start, 1) if one else part
    return part
