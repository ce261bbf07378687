"""Recomputations of worked examples: their inputs, their answers, and the registry of all of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TypeAlias, TypeVar

import msgspec
import torch
from torch import Tensor, nn

from glassformer.equation import Equation
from glassformer.recording import Tape

Kind = TypeVar("Kind")
Layer = TypeVar("Layer", bound=nn.Module)

# Values by the keys of `expected`; under CLAIMS, whether what a document says in words is true, by keys of `printed`.
Answer: TypeAlias = dict[str, object]
CLAIMS = "claims"


@dataclass(frozen=True)
class Given:
    """The inputs of an example, with numbers in float64, and the values that its document prints."""

    inputs: Mapping[str, object]
    printed: Mapping[str, object] = field(default_factory=dict)

    def get(self, name: str, kind: Callable[..., Kind]) -> Kind:
        """One input as the type asked for, such as `int` or `list[float]`."""
        return msgspec.convert(self.inputs[name], kind)

    def fact(self, name: str, kind: Callable[..., Kind]) -> Kind:
        """A printed value that no computation could give."""
        return msgspec.convert(self.printed[name], kind)

    def tensor(self, name: str) -> Tensor:
        """One input as a float64 tensor; Booleans stay Boolean."""
        value = torch.tensor(self.inputs[name])
        return value if value.dtype == torch.bool else torch.tensor(self.inputs[name], dtype=torch.float64)

    def tensors(self, *names: str) -> Iterator[Tensor]:
        """Several inputs, in the order asked for."""
        return map(self.tensor, names)


Recompute: TypeAlias = Callable[[Given], Answer]
# Modules of this package that register recomputations; each is imported when the first example is recomputed.
MODULES = (
    *("attention", "claims", "decoder", "descent", "encoder", "geometry", "gpt", "networks", "positions"),
    *("probability", "sine"),
)
STATED_EXAMPLES: set[str] = set()
_registered: dict[str, Recompute] = {}


@cache
def recomputations() -> dict[str, Recompute]:
    """The recomputation of every example, by the example's id."""
    for name in MODULES:
        import_module(f"glassformer.course.worked.{name}")
    return _registered


def recomputes(example: str) -> Callable[[Recompute], Recompute]:
    """Register a function as the recomputation of an example."""

    def register(function: Recompute) -> Recompute:
        if example in _registered:
            raise ValueError(f"two functions recompute {example}")
        _registered[example] = function
        return function

    return register


def states(example: str) -> Callable[[Recompute], Recompute]:
    """Register a function that states facts no computation here could give; they count as stated."""
    STATED_EXAMPLES.add(example)
    return recomputes(example)


def output_of(tape: Tape, equation: Equation[..., Tensor]) -> Tensor:
    """The output of the first step of an equation, at any depth."""
    return next(step.output for top in tape.steps for step in top.walk() if step.equation is equation)


def loaded(layer: Layer, weights: Mapping[str, Tensor] | None = None) -> Layer:
    """A layer in float64, with an example's weights loaded."""
    layer = layer.double()
    if weights is not None:
        layer.load_state_dict(dict(weights))
    return layer


def largest_difference(a: Tensor, b: Tensor) -> float:
    """The largest absolute difference of two tensors."""
    return (a - b).abs().max().item()
