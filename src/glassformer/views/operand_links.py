"""Which number of a written arithmetic is which operand.

The arithmetic is written a second time with an input in which every operand is a number that occurs once, in the same
order of size; a number of the text is an operand if that one stands in its position and the values agree.
"""

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.equation import tensors_in
from glassformer.probes.contributions import Operands
from glassformer.probes.narrowing import narrowed
from glassformer.steps import Step

_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*(?:e-?\d+)?|∞|nan)(?![\w.])")
_FIRST, _LAST = 1001, 9999  # thousandths: four digits, so that each is written in full and no other number is like it


def operands_in_text(step: Step, index: tuple[int, ...], text: str, every: Operands) -> list[tuple[int, int, int]]:
    """The start and end of each number of the text that is an operand, and its position among all of them."""
    if not len(every):
        return []
    tokens = [match.span() for match in _NUMBER.finditer(text.rpartition(" = ")[0] or text)]
    if not step.equation.has_cell or " = " not in text:  # only copied
        return [(*tokens[0], 0)] if len(every) == 1 and len(tokens) == 1 else []
    marks = _marks(every)
    marked = _NUMBER.findall(_written_with(step, index, every, marks))
    if len(marked) != len(tokens):
        return []
    positions = {f"{mark / 1000:.4g}": position for position, mark in enumerate(marks) if mark}
    found = [(*span, positions[mark]) for span, mark in zip(tokens, marked, strict=True) if mark in positions]
    return [(a, b, position) for a, b, position in found if _agree(text[a:b], abs(float(every.values[position])))]


def _marks(every: Operands) -> list[int]:
    """For each operand a number of thousandths that does not end in 0, larger for larger values; 0 for the rest."""
    numbers = [n for n in range(_FIRST, _LAST + 1) if n % 10]
    order = every.values.nan_to_num(0).argsort(stable=True).tolist()
    marks = [0] * len(every)
    step = max(1, len(numbers) // len(order))
    for rank, position in enumerate(order):
        marks[position] = numbers[rank * step] if rank * step < len(numbers) else 0
    return marks


def _written_with(step: Step, index: tuple[int, ...], every: Operands, marks: Sequence[int]) -> str:
    """The arithmetic of the same number with the marks in position of the operands."""
    near = narrowed(step.equation, step.inputs, step.output, index)
    fresh: dict[tuple[str, int], Tensor] = {}
    done = 0
    for each in every.sets:
        position = next(i for i, t in enumerate(tensors_in(step.inputs[each.symbol])) if t is each.tensor)
        part = tensors_in(near.inputs[each.symbol])[position]
        changed = torch.ones_like(part)
        at = each.indices - torch.tensor(near.starts[each.symbol, position], dtype=torch.int64, device="cpu")
        values = torch.tensor(marks[done : done + len(at)], dtype=part.dtype, device=part.device) / 1000
        changed[tuple(at.to(part.device).T)] = values.reshape(changed[tuple(at.to(part.device).T)].shape)
        fresh[each.symbol, position] = changed
        done += len(at)

    def replaced(symbol: str, value: object, position: int = 0) -> object:
        if isinstance(value, (list, tuple)):
            return type(value)(replaced(symbol, item, at) for at, item in enumerate(value))
        return fresh.get((symbol, position), value)

    inputs = {symbol: replaced(symbol, value) for symbol, value in near.inputs.items()}
    return step.equation.arithmetic(near.index, inputs)


def _agree(text: str, value: float) -> bool:
    """Whether a number that is written with some digits is this value."""
    if text in ("∞", "nan"):
        return str(value) == text.replace("∞", "inf")
    told = float(text)
    digits = text.partition("e")[0].replace(".", "").lstrip("0")
    return abs(told - value) <= 0.51 * 10 ** -max(3, len(digits) - 1) * max(abs(value), 1e-300) * 10
