"""Random arguments for any equation, drawn by Hypothesis from the equation's own annotations."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from inspect import Parameter as Argument
from typing import TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor

from glassformer.equation import Equation
from glassformer.shapes import Axis, Parameter, TensorShape
from tests.equations import special

T = TypeVar("T")


class Draw:
    """One random case: sizes, tensors and choices, all repeatable from Hypothesis's own draws."""

    def __init__(self, data: st.DataObject, dtype: torch.dtype = torch.float64) -> None:
        self._data = data
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31 - 1)))
        self._sizes: dict[str, tuple[int, ...]] = {}

    def integer(self, low: int, high: int) -> int:
        """A whole number between two bounds, both included."""
        return self._data.draw(st.integers(low, high))

    def number(self, low: float, high: float) -> float:
        """A real number between two bounds."""
        return low + (high - low) * torch.rand((), generator=self.generator, dtype=torch.float64).item()

    def choose(self, *options: T) -> T:
        """One of the options."""
        return self._data.draw(st.sampled_from(options))

    def lead(self, most: int = 2) -> tuple[int, ...]:
        """Leading axes: none, one or two."""
        return tuple(self.integer(1, 3) for _ in range(self.integer(0, most)))

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.dtype)

    def positive(self, *shape: int) -> Tensor:
        """Numbers between a tenth and two."""
        return (0.1 + 1.9 * torch.rand(shape, generator=self.generator, dtype=torch.float64)).to(self.dtype)

    def distribution(self, *shape: int) -> Tensor:
        """Rows that are positive and sum to one."""
        return self.normal(*shape).softmax(-1)

    def below(self, high: int, *shape: int) -> Tensor:
        """Whole numbers from zero up to, not including, `high`."""
        return torch.randint(high, shape, generator=self.generator)

    def flags(self, *shape: int) -> Tensor:
        """Random truth values."""
        return torch.rand(shape, generator=self.generator) < 0.7

    def of_shape(self, shape: TensorShape) -> Tensor:
        """A tensor that fits an annotation, sharing axis sizes with those drawn before."""
        sizes = tuple(size for axis in shape.axes for size in self._axis(axis))
        if shape.kind == "Float":
            return self.normal(*sizes)
        return self.flags(*sizes) if shape.kind == "Bool" else self.below(3, *sizes)

    def _axis(self, axis: Axis) -> tuple[int, ...]:
        if axis.size is not None:
            return (axis.size,)
        if axis.name not in self._sizes:
            self._sizes[axis.name] = self.lead() if axis.many else (self.integer(1, 4),)
        size = self._sizes[axis.name]
        if not axis.broadcast:
            return size
        cut = self.integer(0, len(size)) if axis.many else 0
        return tuple(self.choose(1, n) for n in size[cut:])


Arguments = Mapping[str, object]
SPECIAL: dict[str, Callable[[Draw], Arguments]] = {
    name: function
    for module in pkgutil.iter_modules(special.__path__)
    for name, function in vars(importlib.import_module(f"tests.equations.special.{module.name}")).items()
    if callable(function) and getattr(function, "__module__", "").startswith("tests.equations.special.")
}


def draw_arguments(equation: Equation[..., object], draw: Draw) -> dict[str, object]:
    """Arguments for one call: from `special/` where values matter, else from the annotations."""
    if equation.name in SPECIAL:
        return dict(SPECIAL[equation.name](draw))
    return {p.name: _argument(p, draw) for p in equation.parameters if p.is_tensor or p.default is Argument.empty}


def _argument(parameter: Parameter, draw: Draw) -> object:
    if not parameter.is_tensor:
        raise LookupError(f"say in tests/equations/special how to draw {parameter.name}")
    if parameter.optional and draw.choose(True, False):
        return None
    shape = draw.choose(*parameter.shapes)
    if parameter.several:
        return [draw.of_shape(shape) for _ in range(draw.integer(1, 3))]
    return draw.of_shape(shape)
