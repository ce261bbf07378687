"""Read shapes from annotations, check arguments against them, and name what does not fit."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Union, cast, get_args, get_origin

import torch
from torch import Tensor

from glassformer.errors import EquationError


@dataclass(frozen=True)
class Axis:
    """One word of a shape: `seq`, `*batch` (any number of axes), `#keys` (one, or as many as keys)."""

    name: str
    many: bool = False
    broadcast: bool = False
    size: int | None = None

    @classmethod
    def read(cls, word: str) -> "Axis":
        """Read one word of a jaxtyping shape."""
        name = word.lstrip("*#?")
        marks = word[: len(word) - len(name)]
        if word == "...":
            return cls("...", many=True, broadcast=True)
        return cls(name, "*" in marks, "#" in marks, int(name) if name.isdigit() else None)


@dataclass(frozen=True)
class TensorShape:
    """The dtypes and axes that an annotation such as `Float[Tensor, "*rows n"]` requires."""

    kind: str
    dtypes: tuple[str, ...] = field(repr=False)
    text: str
    axes: tuple[Axis, ...] = field(repr=False)

    def accepts_type(self, tensor: Tensor) -> bool:
        """Whether the tensor has one of the annotated dtypes."""
        return str(tensor.dtype).removeprefix("torch.") in self.dtypes


@dataclass(frozen=True)
class Parameter:
    """One argument of an equation, as its annotation describes it."""

    name: str
    shapes: tuple[TensorShape, ...]
    optional: bool
    several: bool
    number: bool
    default: object = inspect.Parameter.empty

    @property
    def is_tensor(self) -> bool:
        """Whether the argument is a tensor or a sequence of tensors."""
        return bool(self.shapes)

    @property
    def is_float(self) -> bool:
        """Whether a gradient can flow into it."""
        return any(shape.kind == "Float" for shape in self.shapes)

    @property
    def text(self) -> str:
        """The shapes as text; empty for an argument that is not a tensor."""
        return " or ".join(dict.fromkeys(f"[{shape.text}]" for shape in self.shapes))

    def of_shape(self, value: object) -> object:
        """A tensor without values where a shape is given for one; anything else as it is."""
        if self.several and isinstance(value, (list, tuple)) and not _is_shape(value):
            return type(value)(torch.empty(item, device="meta") if _is_shape(item) else item for item in value)
        if not self.is_tensor or self.several or not _is_shape(value):
            return value
        dtype = {"Float": torch.float32, "Bool": torch.bool}.get(self.shapes[0].kind, torch.int64)
        return torch.empty(cast(Sequence[int], value), dtype=dtype, device="meta")


def _is_shape(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(size, int) and size >= 0 for size in value)


def read_parameters(fn: Callable[..., object]) -> tuple[Parameter, ...]:
    """Describe every argument of a function from its annotations."""
    return tuple(_read_annotation(p.name, p.annotation, p.default) for p in inspect.signature(fn).parameters.values())


def read_results(fn: Callable[..., object], names: Sequence[str]) -> tuple[Parameter, ...]:
    """Describe what a function returns, under the given names."""
    annotation = inspect.signature(fn).return_annotation
    parts = get_args(annotation) if get_origin(annotation) is tuple else (annotation,)
    return tuple(_read_annotation(name, part) for name, part in zip(names, parts, strict=True))


def _read_annotation(name: str, annotation: object, default: object = inspect.Parameter.empty) -> Parameter:
    several = get_origin(annotation) in (list, tuple, Sequence)
    union = get_origin(annotation) in (types.UnionType, Union)
    parts = get_args(annotation) if several or union else (annotation,)
    shapes = tuple(_read_shape(part) for part in parts if hasattr(part, "dim_str"))
    return Parameter(name, shapes, type(None) in parts, several, int in parts or float in parts, default)


def _read_shape(annotation: object) -> TensorShape:
    text = str(getattr(annotation, "dim_str")).strip()  # noqa: B009 - jaxtyping's own public attribute
    kind = str(getattr(annotation, "__name__")).partition("[")[0]  # noqa: B009
    dtypes = tuple(str(dtype) for dtype in getattr(annotation, "dtypes"))  # noqa: B009
    return TensorShape(kind, dtypes, text, tuple(Axis.read(word) for word in text.split()))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape both stretch to, or None; torch's own function would load a symbolic algebra for it."""
    length = max(len(a), len(b))
    pairs = list(zip((1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b, strict=True))
    if any(1 not in pair and pair[0] != pair[1] for pair in pairs):
        return None
    return tuple(y if x == 1 else x for x, y in pairs)


class Axes:
    """Axis sizes found so far in one call, and where each was found."""

    def __init__(self, equation: str) -> None:
        self.equation = equation
        self.sizes: dict[str, tuple[int, ...]] = {}
        self._origin: dict[str, str] = {}
        self._loose: set[str] = set()

    def bind(self, parameters: Sequence[Parameter], arguments: Mapping[str, object]) -> None:
        """Check each argument against its annotation; the first that does not fit raises."""
        for parameter in parameters:
            if not parameter.is_tensor:
                continue
            value = arguments[parameter.name]
            if (value is None and parameter.optional) or (parameter.number and isinstance(value, int | float)):
                continue
            items = value if parameter.several and isinstance(value, Sequence) else (value,)
            for item in items:
                self._bind_tensor(parameter, item)

    def _bind_tensor(self, parameter: Parameter, value: object) -> None:
        name = parameter.name
        if not isinstance(value, Tensor):
            kinds = " or ".join(dict.fromkeys(shape.kind.lower() for shape in parameter.shapes))
            self._fail(f"{name} is a {type(value).__name__}, wanted a tensor of type {kinds} {parameter.text}")
        fitting = [shape for shape in parameter.shapes if shape.accepts_type(value)]
        if not fitting:
            kinds = " or ".join(dict.fromkeys(shape.kind.lower() for shape in parameter.shapes))
            self._fail(f"{name} has type {str(value.dtype).removeprefix('torch.')}, wanted {kinds}")
        if not any(self._fits(shape, value.shape, name) for shape in fitting):
            self._fail(f"{name} has shape {list(value.shape)}, wanted {parameter.text}{self._known(fitting)}")

    def _fits(self, shape: TensorShape, sizes: torch.Size, name: str) -> bool:
        many = [i for i, axis in enumerate(shape.axes) if axis.many]
        missing = len(sizes) - (len(shape.axes) - len(many))
        if missing < 0 or (missing > 0 and not many):
            return False
        before = dict(self.sizes), set(self._loose)
        position = 0
        for axis in shape.axes:
            count = missing if axis.many else 1
            if not self._fit_axis(axis, tuple(sizes[position : position + count]), name):
                self.sizes, self._loose = before  # what a shape that does not fit has bound does not count
                return False
            position += count
        return True

    def _fit_axis(self, axis: Axis, found: tuple[int, ...], name: str) -> bool:
        if axis.name in ("...", "_"):
            return True
        if axis.size is not None:
            return found == (axis.size,)
        known = self.sizes.get(axis.name)
        if known is None:
            self.sizes[axis.name] = found
            self._origin[axis.name] = name
            if axis.broadcast:
                self._loose.add(axis.name)
            return True
        if not axis.broadcast and axis.name not in self._loose:
            return found == known
        joined = _broadcast(known, found)
        if joined is None:
            return False
        if axis.name in self._loose:
            self.sizes[axis.name] = joined
            return True
        return joined == known

    def _known(self, shapes: Sequence[TensorShape]) -> str:
        names = dict.fromkeys(axis.name for shape in shapes for axis in shape.axes)
        known = [
            f"{name} = {', '.join(map(str, self.sizes[name])) or 'nothing'} (from {self._origin[name]})"
            for name in names
            if name in self.sizes
        ]
        return f" with {' and '.join(known)}" if known else ""

    def _fail(self, what: str) -> NoReturn:
        raise EquationError(f"{self.equation}: {what}")
