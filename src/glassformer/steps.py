"""The parts of a tape: steps, each one call of an equation, and the gradients of a reverse run."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor
from torch.overrides import resolve_name

from glassformer.equation import AnyEquation, tensors_in
from glassformer.errors import TapeError


@dataclass(eq=False, repr=False)
class Step:
    """One equation as it ran: where, on what, giving what, and the steps inside it."""

    path: str
    equation: AnyEquation
    inputs: dict[str, object]
    outputs: tuple[object, ...] = ()
    children: list["Step"] = field(default_factory=list)
    versions: tuple[int, ...] = ()
    module: str = ""
    changes: "Step | None" = None  # the step whose result this one replaces, in a run with changes

    def __repr__(self) -> str:
        made = [f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}" for tensor in self.output_tensors]
        return f"<Step {self.path}: {self.equation.name}, {', '.join(made) if self.kept else 'values not kept'}>"

    def _repr_markdown_(self) -> str:
        """The formula, and every symbol with its shape, as a notebook shows them."""
        rows = [f"**{self.path}**: {self.equation.meaning}", f"$$ {self.equation.latex} $$"]
        results = [result.name for result in self.equation.results]
        values = [*self.inputs.items(), *zip(results, self.outputs, strict=False)]
        table = [f"| {name} | {described(value)} |" for name, value in values if value is not None]
        return "\n\n".join([*rows, "\n".join(["| symbol | value |", "| --- | --- |", *table])])

    @property
    def kept(self) -> bool:
        """Whether the tape kept what went in and what came out."""
        return bool(self.outputs)

    @property
    def output(self) -> Tensor:
        """The first output."""
        first = self.outputs[0]
        if not isinstance(first, Tensor):
            raise TapeError(f"{self.path} gives a {type(first).__name__}, not a tensor")
        return first

    @property
    def input_tensors(self) -> list[Tensor]:
        """Every tensor the step read, with sequences flattened."""
        return tensors_in(list(self.inputs.values()))

    @property
    def output_tensors(self) -> list[Tensor]:
        """Every tensor the step made."""
        return tensors_in(self.outputs)

    def walk(self) -> Iterator["Step"]:
        """This step, then every step inside it, in the order they began."""
        yield self
        for child in self.children:
            yield from child.walk()


def described(value: object) -> str:
    """A value in a few words: the shape, dtype and range of a tensor."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, Tensor) for item in value):
        return f"{len(value)} tensors, the first {described(value[0])}"
    if not isinstance(value, Tensor):
        return str(value).replace("|", "\\|")
    text = f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if not value.numel() or value.is_meta:
        return text
    return f"{text}, {float(value.detach().min()):.4g} to {float(value.detach().max()):.4g}"


Operation: TypeAlias = Callable[..., object]


def not_recorded(operation: Operation) -> str:
    """The end of an error message about a plain torch operation between equations."""
    name = resolve_name(operation) or str(operation)
    return f"{name}; it is not an equation, so the tape did not record it: call an equation instead"


class Gradients:
    """Gradients of one reverse run, looked up by the tensor they belong to.

    `lost` has by id the tensors whose gradient is not whole, each with the plain torch operation that part of it
    would have to go back through.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Tensor, Tensor]] = {}
        self.lost: dict[int, tuple[Tensor, Operation]] = {}

    def __getitem__(self, tensor: Tensor) -> Tensor:
        """The gradient of the seeded output with respect to this tensor."""
        self.require([tensor])
        if id(tensor) not in self._found:
            raise TapeError(
                f"no gradient for this tensor of shape {list(tensor.shape)}: "
                "the output does not depend on it, or it never met the tape"
            )
        return self._found[id(tensor)][1]

    def __contains__(self, tensor: Tensor) -> bool:
        return id(tensor) in self._found and id(tensor) not in self.lost

    def require(self, tensors: Iterable[Tensor]) -> None:
        """Raise where the gradient of one of these tensors is not whole."""
        for tensor in tensors:
            if id(tensor) in self.lost:
                raise TapeError(f"the gradient cannot go back through {not_recorded(self.lost[id(tensor)][1])}")

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Tensor]:
        return (tensor for tensor, _ in self._found.values())

    def __repr__(self) -> str:
        return f"<Gradients of {len(self)} tensors>"

    def add(self, tensor: Tensor, gradient: Tensor) -> None:
        """Add what one use of a tensor sends back to it, summed over broadcast axes."""
        gradient = gradient.sum_to_size(tensor.shape).to(tensor.dtype)
        before = self._found.get(id(tensor))
        self._found[id(tensor)] = (tensor, gradient if before is None else before[1] + gradient)


def version_of(tensor: Tensor) -> int:
    """A number that grows when a tensor is changed in place; always 0 under inference mode."""
    return 0 if tensor.is_inference() else tensor._version
