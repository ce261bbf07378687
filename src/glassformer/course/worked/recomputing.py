"""What a recomputation is given, what it gives back, and the list of all of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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
    """The inputs of an example, all numbers in float64, and what its document prints."""

    inputs: Mapping[str, object]
    printed: Mapping[str, object] = field(default_factory=dict)

    def get(self, name: str, kind: Callable[..., Kind]) -> Kind:
        """One input as the type asked for, such as `int` or `list[float]`."""
        return msgspec.convert(self.inputs[name], kind)

    def fact(self, name: str, kind: Callable[..., Kind]) -> Kind:
        """Something the document states that no computation could give."""
        return msgspec.convert(self.printed[name], kind)

    def tensor(self, name: str) -> Tensor:
        """One input as a tensor; true and false stay as they are."""
        value = torch.tensor(self.inputs[name])
        return value if value.dtype == torch.bool else torch.tensor(self.inputs[name], dtype=torch.float64)

    def tensors(self, *names: str) -> Iterator[Tensor]:
        """Several inputs, in the order asked for."""
        return map(self.tensor, names)


Recompute: TypeAlias = Callable[[Given], Answer]
RECOMPUTATIONS: dict[str, Recompute] = {}
STATED_EXAMPLES: set[str] = set()


def recomputes(example: str) -> Callable[[Recompute], Recompute]:
    """Enter a function in the list as the recomputation of an example."""

    def enter(function: Recompute) -> Recompute:
        if example in RECOMPUTATIONS:
            raise ValueError(f"two functions recompute {example}")
        RECOMPUTATIONS[example] = function
        return function

    return enter


def states(example: str) -> Callable[[Recompute], Recompute]:
    """Enter a function in the list that states facts no computation here could give; they count as stated."""
    STATED_EXAMPLES.add(example)
    return recomputes(example)


def output_of(tape: Tape, equation: Equation[..., Tensor]) -> Tensor:
    """What the first step of an equation gave, however deep it stands."""
    return next(step.output for top in tape.steps for step in top.walk() if step.equation is equation)


def loaded(layer: Layer, weights: Mapping[str, Tensor] | None = None) -> Layer:
    """A layer in float64, with an example's weights in place of its own."""
    layer = layer.double()
    if weights is not None:
        layer.load_state_dict(dict(weights))
    return layer


def largest_difference(a: Tensor, b: Tensor) -> float:
    """How far apart two tensors are at most."""
    return (a - b).abs().max().item()
