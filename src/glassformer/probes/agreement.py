"""Compare the fused kernel of every equation with its reference form on the same inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.equation import MODE, AnyEquation, reference_mode
from glassformer.recording import Tape


@dataclass(frozen=True)
class Agreement:
    """One equation over a whole run: its calls, and the largest difference of its kernel from its reference form.

    `path` is the step with that difference, taken over finite numbers; it is infinite where one form gives NaN or an
    infinity and the other does not. `not_finite` of the `numbers` are NaN or infinite.
    """

    equation: str
    calls: int
    difference: float
    relative: float
    path: str
    numbers: int = 0
    not_finite: int = 0


class _BothWays(Tape):
    """A tape that continues with the kernel's result and notes its distance from the reference result."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[Agreement]] = {}

    def record(self, equation: AnyEquation, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run the kernel and the reference form of an equation on the same inputs, and return the kernel's result."""
        path, _ = self._path(equation)
        state = torch.get_rng_state()
        outside, MODE.dispatcher = MODE.dispatcher, None
        try:
            fast = equation.kernel(*args, **kwargs)
            torch.set_rng_state(state)  # both draw the same dropout mask
            with reference_mode():
                reference = equation.fn(*args, **kwargs)
        finally:
            MODE.dispatcher = outside
        self.found.setdefault(equation.name, []).append(difference_between(equation.name, path, fast, reference))
        return fast


def agreement(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[Agreement]:
    """The largest difference between kernel and reference for each equation of one run, worst first."""
    tape = _BothWays()
    with torch.no_grad(), tape:
        model(**inputs)
    worst = [max(rows, key=lambda row: row.difference) for rows in tape.found.values()]
    counted = (replace(row, calls=len(tape.found[row.equation])) for row in worst)
    return sorted(counted, key=lambda row: -row.difference)


def difference_between(name: str, path: str, fast: object, reference: object) -> Agreement:
    """The largest difference of two results, absolute and relative to the largest reference number."""
    pairs = zip(*(part if isinstance(part, tuple) else (part,) for part in (fast, reference)), strict=True)
    difference = relative = 0.0
    numbers = not_finite = 0
    for one, other in pairs:
        if isinstance(one, Tensor) and isinstance(other, Tensor) and one.is_floating_point() and one.numel():
            infinite = ~other.isfinite()
            numbers, not_finite = numbers + other.numel(), not_finite + int(infinite.sum())
            apart = float((one - other).abs_().masked_fill_(infinite, 0).max())
            alike = one.isfinite().all() and not infinite.any()  # the common case, without codes for each number
            if not alike and not torch.equal(_kinds(one), _kinds(other)):
                apart = torch.inf
            difference = max(difference, apart)
            size = float(other.abs().masked_fill_(infinite, 0).max())
            relative = max(relative, apart / size if size else 0.0)
    return Agreement(name, 1, difference, relative, path, numbers, not_finite)


def _kinds(value: Tensor) -> Tensor:
    """Zero for finite numbers, and a code for each of NaN, infinity and minus infinity."""
    return value.isnan() + 2 * value.isposinf() + 3 * value.isneginf()
