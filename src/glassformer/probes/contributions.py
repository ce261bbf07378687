"""Operands of one number: the entries of a step's inputs that count in it, or the gradients that made its gradient.

The share of an operand is its gradient, by the equation's rule, times its value, divided by the sum of the absolute
values of all these products. Positive shares raise the number, negative ones lower it, and their absolute values sum
to 1. In a product both factors count. Where every product is zero, shares are those of the gradients alone, and where
these are zero too, those of the gradients at positive random inputs: a ReLU of −1 has that −1 as its operand. A number
that is not finite has equal shares from the entries that are not finite.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from glassformer.arithmetic import dot, number
from glassformer.equation import AnyEquation, no_checks, reference_mode, tensors_in
from glassformer.probes.narrowing import Narrowed, narrowed
from glassformer.steps import Gradients, Step

_PROBED = 2**20  # entries at most that are also looked at for random inputs
_NOTHING = torch.zeros(0, dtype=torch.float64, device="cpu")


@dataclass(frozen=True)
class Contribution:
    """One entry that counts in a number: its letter in the equation, its tensor and index, its value and share."""

    symbol: str
    tensor: Tensor = field(repr=False)
    index: tuple[int, ...]
    value: float
    share: float


@dataclass(frozen=True, eq=False)
class EntrySet:
    """The entries of one input that count, as indices in the order of the tensor."""

    symbol: str
    tensor: Tensor = field(repr=False)
    indices: Tensor = field(repr=False)  # [entries, axes]

    @property
    def box(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first and last index on each axis: a row of a matrix, a column, or a single entry."""
        first, last = self.indices.amin(0), self.indices.amax(0)
        return tuple(map(int, first)), tuple(map(int, last))


@dataclass(frozen=True, eq=False)
class Operands:
    """Every entry that counts in one number, in the order of the letters and of each tensor, with its share."""

    sets: tuple[EntrySet, ...]
    values: Tensor
    fractions: Tensor

    @classmethod
    def none(cls) -> "Operands":
        """No operands, of a number that was given."""
        return cls((), _NOTHING, _NOTHING)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, position: int) -> Contribution:
        """The operand at a position in the order of the letters."""
        at = position
        for each in self.sets:
            if at < len(each.indices):
                index = tuple(map(int, each.indices[at]))
                return Contribution(
                    each.symbol, each.tensor, index, float(self.values[position]), float(self.fractions[position])
                )
            at -= len(each.indices)
        raise IndexError(position)

    def largest(self, most: int, of: Callable[[Tensor], bool] = lambda _: True) -> list[int]:
        """The positions of the operands with the largest shares, the largest first, among those of some tensors."""
        wanted = [of(each.tensor) for each in self.sets]
        counts = torch.tensor([len(each.indices) for each in self.sets], dtype=torch.int64, device="cpu")
        kept = torch.tensor(wanted, dtype=torch.bool, device="cpu").repeat_interleave(counts)
        at = kept.nonzero()[:, 0]
        sizes = self.fractions.abs()[at]
        if most < len(at):  # the candidates, so that the sort is short
            near = (sizes >= sizes.topk(most).values[-1]).nonzero()[:, 0]
            at, sizes = at[near], sizes[near]
        return at[sizes.argsort(descending=True, stable=True)][:most].tolist()


def maker(step: Step) -> Step:
    """The outermost part of a step that made its first output and can write out its arithmetic."""
    while not step.equation.has_cell:
        inner = next((child for child in step.children if child.kept and child.output is step.output), None)
        if inner is None:
            return step
        step = inner
    return step


@torch.no_grad()
def operands(step: Step, index: tuple[int, ...]) -> Operands:
    """Every entry of a step's inputs that counts in the number at an index of its first output."""
    inner = maker(step)
    near = narrowed(inner.equation, inner.inputs, inner.output, index)
    actual = _input_gradients(inner.equation, near.inputs, near.index)
    sizes = [gradient.numel() for gradient in actual.values()]
    probed = _input_gradients(inner.equation, _random(near.inputs), near.index) if sum(sizes) <= _PROBED else actual
    sets, values, gradients, others = list[EntrySet](), list[Tensor](), list[Tensor](), list[Tensor]()
    for (symbol, position), gradient in actual.items():
        tensor, other = tensors_in(inner.inputs[symbol])[position], probed[symbol, position]
        at = ((gradient != 0) | (other != 0)).nonzero()
        if not len(at):
            continue
        part = tensors_in(near.inputs[symbol])[position]
        sets.append(EntrySet(symbol, tensor, _moved(at, near.starts[symbol, position])))
        for found, whole in ((values, part), (gradients, gradient), (others, other)):
            found.append(_entries(whole, at))
    if not sets:
        return Operands.none()
    counted = torch.cat(values)
    bad = not bool(step.output.detach()[index].isfinite())
    return Operands(tuple(sets), counted, _shares(counted, torch.cat(gradients), torch.cat(others), bad))


def _entries(tensor: Tensor, indices: Tensor) -> Tensor:
    return tensor.detach()[tuple(indices.T)].reshape(-1).double().cpu()


def _moved(indices: Tensor, start: tuple[int, ...]) -> Tensor:
    return indices.cpu() + torch.tensor(start, dtype=torch.int64, device="cpu")


def _input_gradients(
    equation: AnyEquation, inputs: Mapping[str, object], index: tuple[int, ...]
) -> dict[tuple[str, int], Tensor]:
    """The gradient of one output number with respect to each tensor, by letter and position in a sequence."""
    with reference_mode(), no_checks():
        outputs = tensors_in(equation.fn(**inputs))
        seeds = [torch.zeros_like(output) for output in outputs]
        seeds[0][index] = 1
        found = equation.vjp(inputs, outputs, seeds) or {}
    return {
        (name, position): part.sum_to_size(tensor.shape)
        for name, gradient in found.items()
        for position, (tensor, part) in enumerate(
            zip(tensors_in(inputs[name]), tensors_in(gradient), strict=gradient is not None)
        )
    }


def _random(inputs: Mapping[str, object]) -> dict[str, object]:
    """The same inputs with positive random numbers for floats, where a gradient is zero only for want of a path."""
    generator = torch.Generator().manual_seed(0)

    def changed(value: object) -> object:
        if isinstance(value, (list, tuple)):
            return type(value)(changed(item) for item in value)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        return torch.rand(value.shape, generator=generator).add(0.5).to(value)

    return {name: changed(value) for name, value in inputs.items()}


def _shares(values: Tensor, gradients: Tensor, others: Tensor, bad: bool) -> Tensor:
    if bad and not values.isfinite().all():
        sizes = (~values.isfinite()).double()
        return sizes / sizes.sum()
    for products in ((gradients * values).nan_to_num(0, 0, 0), gradients.nan_to_num(0, 0, 0), others):
        whole = products.abs().sum()
        if whole > 0:
            return products / whole
    return torch.zeros_like(values)


@dataclass(frozen=True, eq=False)
class Sent:
    """What one consuming step sends back to an entry of its input, and the gradients of its output it is made of."""

    step: Step
    symbol: str
    value: float
    text: str
    operands: Operands


def sent_back(steps: Iterable[Step], gradients: Gradients, tensor: Tensor, index: tuple[int, ...]) -> list[Sent]:
    """What each innermost step that reads a tensor sends back to one entry of it; the sum is the entry's gradient."""
    found = [
        _sent(step, gradients, symbol, position, index)
        for step, symbol, position in readers(steps, tensor)
        if step.equation.gradient is not None and any(output in gradients for output in step.output_tensors)
    ]
    whole = sum(float(each.operands.fractions.abs().sum()) for each in found)
    return [_of_the_whole(each, whole) for each in found if len(each.operands)]


def readers(steps: Iterable[Step], tensor: Tensor) -> Iterator[tuple[Step, str, int]]:
    """The innermost steps that read a tensor, with the letter and the position in a sequence that it has there."""
    for step in (step for top in steps for step in top.walk() if not step.children):
        for symbol, value in step.inputs.items():
            for position, each in enumerate(tensors_in(value)):
                if each is tensor:
                    yield step, symbol, position


def _sent(step: Step, gradients: Gradients, symbol: str, position: int, index: tuple[int, ...]) -> Sent:
    """One step's part of a gradient, which is a weighted sum of the gradients of the step's outputs."""
    outputs = step.output_tensors
    given = [gradients[t] if t in gradients else torch.zeros_like(t) for t in outputs]
    near = narrowed(step.equation, step.inputs, step.output, index, (symbol, position))
    with torch.inference_mode(False), torch.enable_grad(), reference_mode(), no_checks():
        seeds = [near.of_output(i, gradient).clone().requires_grad_() for i, gradient in enumerate(given)]
        values = [near.of_output(i, output) for i, output in enumerate(outputs)]
        back = tensors_in((step.equation.vjp(near.inputs, values, seeds) or {})[symbol])
        part = tensors_in(near.inputs[symbol])[position]
        entry = back[position].sum_to_size(part.shape)[near.index] if back else seeds[0].new_zeros(())
        factors = torch.autograd.grad(entry, seeds, allow_unused=True) if entry.requires_grad else (None,) * len(seeds)
    return _weighted_sum(step, symbol, entry, near, [*zip(seeds, factors, strict=True)])


def _weighted_sum(
    step: Step, symbol: str, entry: Tensor, near: Narrowed, terms: Sequence[tuple[Tensor, Tensor | None]]
) -> Sent:
    """A part of a gradient as the sum of gradients of outputs times factors; of each output, those that are not 0."""
    sets, sent, factors = list[EntrySet](), list[Tensor](), list[Tensor]()
    for i, (output, (seed, factor)) in enumerate(zip(step.output_tensors, terms, strict=True)):
        at = seed.new_zeros(0, seed.dim()).long() if factor is None else factor.nonzero()
        if factor is not None and len(at):
            letter = step.equation.results[i].name
            sets.append(EntrySet(letter, output, _moved(at, near.start_of_output(i, output))))
            sent.append(_entries(seed, at))
            factors.append(_entries(factor, at))
    if not sets:
        return Sent(step, symbol, float(entry.detach()), number(entry.detach()), Operands.none())
    given, by = torch.cat(sent), torch.cat(factors)
    text = number(given) if len(given) == 1 and float(by) == 1 else dot(given, by)
    return Sent(
        step, symbol, float(entry.detach()), text, Operands(tuple(sets), given, (given * by).nan_to_num(0, 0, 0))
    )


def _of_the_whole(sent: Sent, whole: float) -> Sent:
    """The same with the shares of its operands in the whole gradient."""
    parts = sent.operands
    fractions = parts.fractions / whole if whole > 0 else parts.fractions
    return Sent(sent.step, sent.symbol, sent.value, sent.text, Operands(parts.sets, parts.values, fractions))
