"""`Equation`: a formula as an object, on which everything else is built."""

import functools
import inspect
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.entry import Symbol
from glassformer.errors import EquationError
from glassformer.shapes import Axes, read_parameters, read_results

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., object])

_CATALOG: dict[str, "AnyEquation"] = {}
_HALF = (torch.float16, torch.bfloat16)


class Dispatcher(Protocol):
    """Decides how a call runs: with argument checks, on a tape, or in reference mode."""

    def record(self, equation: "AnyEquation", args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run the equation and return its result."""
        ...


class Checks:
    """Check a call from outside the library, then run it and everything it calls without further checks."""

    def record(self, equation: "AnyEquation", args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Check, then run the fast form."""
        equation.check(*args, **kwargs)
        with no_checks():
            return equation.kernel(*args, **kwargs)


CHECKS = Checks()


class Mode(threading.local):
    """How equations run on this thread; with no dispatcher a call goes straight to its kernel."""

    dispatcher: Dispatcher | None = CHECKS
    checking: bool = True


MODE = Mode()


class no_checks:  # noqa: N801 - reads as a word: `with no_checks():`
    """Skip argument checks inside, for a caller that has already checked at the boundary."""

    def __enter__(self) -> None:
        self._before = MODE.dispatcher, MODE.checking
        MODE.checking = False
        if MODE.dispatcher is CHECKS:
            MODE.dispatcher = None

    def __exit__(self, *_: object) -> None:
        MODE.dispatcher, MODE.checking = self._before


class reference_mode:  # noqa: N801 - reads as a word: `with reference_mode():`
    """Run plain functions inside, never fused kernels, and record nothing."""

    def __enter__(self) -> Self:
        self._before, MODE.dispatcher = MODE.dispatcher, self
        return self

    def __exit__(self, *_: object) -> None:
        MODE.dispatcher = self._before

    def record(self, equation: "AnyEquation", args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run the equation's plain function."""
        if MODE.checking:
            equation.check(*args, **kwargs)
        with no_checks():
            return equation.fn(*args, **kwargs)


@dataclass(frozen=True)
class Cost:
    """What one call takes: floating-point operations, and bytes read and written."""

    flops: int
    bytes: int


@dataclass(frozen=True)
class Gradient:
    """A hand-derived vector-Jacobian product: `rule` asks for values by name, and gives one gradient per `wrt`."""

    latex: str
    rule: Callable[..., object]
    wrt: tuple[str, ...]
    needs: tuple[str, ...]

    def __call__(self, values: Mapping[str, object]) -> dict[str, object]:
        """Gradients by input name from inputs, outputs and cotangents (`name_bar`) by name."""
        result = self.rule(**{name: values[name] for name in self.needs})
        parts = result if len(self.wrt) > 1 and isinstance(result, tuple) else (result,)
        return dict(zip(self.wrt, parts, strict=True))


class Equation(Generic[P, R]):
    """A formula with everything known about it; call it to compute.

    With no tape on, a call runs the fused form where there is one. Under a tape it runs the plain
    function and is recorded.
    """

    latex: str
    meaning: str
    intuition: str
    flops: Callable[..., int] | None
    where: Mapping[str, Callable[..., None]]

    def __init__(self, fn: Callable[P, R], symbols: Mapping[str, str], names: Mapping[str, str], upcast: bool) -> None:
        self.fn = _upcast_to_float32(fn) if upcast else fn
        self._upcast, self.step_names = upcast, names
        self.name: str = getattr(fn, "__name__", "")
        self.fused: Callable[P, R] | None = None
        self.gradient: Gradient | None = None
        self.kernel: Callable[P, R] = self.fn
        self._checks: tuple[Callable[..., object], tuple[str, ...]] | None = None
        self._cell: Callable[..., str] | None = None
        self._cell_needs: tuple[str, ...] = ()
        self._signature = inspect.signature(fn)
        self.parameters = read_parameters(fn)
        keys = {key.partition("="): words for key, words in symbols.items()}
        self._words = {name: (words, letter if mark else name) for (name, mark, letter), words in keys.items()}
        self.results = read_results(fn, [each for each in self._words if each not in {p.name for p in self.parameters}])
        unknown = set(self.step_names) - {symbol.name for symbol in self.symbols}
        if unknown:
            raise ValueError(f"{self.name}: names has {sorted(unknown)}, which are not among its symbols")
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Compute; recorded if a tape is on, checked if this call comes from outside the library."""
        if MODE.dispatcher is None or torch.compiler.is_compiling():
            return self.kernel(*args, **kwargs)
        return cast(R, MODE.dispatcher.record(cast(AnyEquation, self), args, kwargs))

    def __repr__(self) -> str:
        return f"<Equation {self.name}: {self.meaning}>"

    def _repr_latex_(self) -> str:
        """The formula, as a notebook shows it."""
        return f"$\\displaystyle {self.latex}$"

    def __reduce__(self) -> str:
        """Pickle by name: a copied model, or one sent to another process, holds the same equations."""
        return self.name

    def def_fused(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Attach a fast implementation of the same function."""
        self.fused = self.kernel = fn
        return fn

    def def_gradient(self, latex: str, wrt: str = "") -> Callable[[Rule], Rule]:
        """Attach the gradient rule; `wrt` names the inputs it answers for, by default every float one."""

        def attach(rule: Rule) -> Rule:
            floats = tuple(parameter.name for parameter in self.parameters if parameter.is_float)
            fn, needs = _upcast_to_float32(rule) if self._upcast else rule, tuple(inspect.signature(rule).parameters)
            self.gradient = Gradient(latex, fn, tuple(wrt.split()) or floats, needs)
            return rule

        return attach

    def def_check(self, check: Rule) -> Rule:
        """Attach a check beyond types and shapes; it calls `require` for each thing it asks."""
        self._checks = check, tuple(inspect.signature(check).parameters)
        return check

    def def_cost(self, flops: Callable[..., int]) -> Callable[..., int]:
        """Attach a count of floating-point operations that is more than one expression; else give `flops=`."""
        self.flops = flops
        return flops

    def def_cell(self, cell: Callable[..., str]) -> Callable[..., str]:
        """Attach the arithmetic behind one output number: `index` and values by name in, text out."""
        self._cell = cell
        self._cell_needs = tuple(name for name in inspect.signature(cell).parameters if name != "index")
        return cell

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Every letter with its role, shape, meaning and LaTeX, inputs first."""
        roles = [(p, "input" if p.is_tensor else "setting") for p in self.parameters]
        roles += [(result, "output") for result in self.results]
        return tuple(Symbol(p.name, role, p.text, *self._words.get(p.name, ("", ""))) for p, role in roles)

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Arguments by name, defaults filled in."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            wanted = ", ".join(parameter.name for parameter in self.parameters)
            raise EquationError(f"{self.name}: {error}, wanted {wanted}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def check(self, *args: object, **kwargs: object) -> None:
        """Raise an `EquationError` that names the symbol if these arguments do not fit."""
        arguments = self.bind(args, kwargs)
        Axes(self.name).bind(self.parameters, arguments)
        for symbols, condition in self.where.items():
            condition(self.require, **{name: arguments[name] for name in symbols.split()})
        if self._checks is not None:
            check, names = self._checks
            check(**{name: arguments[name] for name in names})

    def require(self, holds: bool | Tensor, symbol: str, got: object, wanted: str) -> None:
        """Raise an `EquationError` unless the condition holds."""
        if not holds:
            raise EquationError(f"{self.name}: {symbol} is {got}, wanted {wanted}")

    def vjp(
        self, inputs: Mapping[str, object], outputs: Sequence[Tensor], cotangents: Sequence[Tensor]
    ) -> dict[str, object] | None:
        """Gradients of the inputs by the hand-derived rule, or None where there is no rule."""
        if self.gradient is None:
            return None
        values = dict(inputs)
        for result, output, cotangent in zip(self.results, outputs, cotangents, strict=True):
            values |= {result.name: output, f"{result.name}_bar": cotangent}
        return self.gradient(values)

    def cost(self, *args: object, **kwargs: object) -> Cost:
        """Operations and bytes of one call from its arguments, or from their shapes: nothing is computed.

        A shape such as (3, 4) is that of a float32 tensor where a float is wanted.
        """
        arguments, axes = self._sketched(args, kwargs)
        with _Calls() as calls:
            result = self.fn(**arguments)  # pyright: ignore[reportCallIssue] - the same arguments, by name
        moved = sum(t.numel() * t.element_size() for t in tensors_in([*arguments.values(), result]))
        if self.flops is None:
            return Cost(sum(part.operations(**inputs) for part, inputs in calls.made), moved)
        return Cost(self._declared(self.flops, arguments, axes), moved)

    def operations(self, *args: object, **kwargs: object) -> int:
        """The operations of the cost of one call; where they are declared, no other equation is asked."""
        if self.flops is None:
            return self.cost(*args, **kwargs).flops
        return self._declared(self.flops, *self._sketched(args, kwargs))

    def _sketched(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[dict[str, object], Axes]:
        bound = self.bind(args, kwargs)
        arguments = {p.name: _to_meta(p.of_shape(bound[p.name])) for p in self.parameters}
        axes = Axes(self.name)
        axes.bind(self.parameters, arguments)
        return arguments, axes

    def _declared(self, flops: Callable[..., int], arguments: dict[str, object], axes: Axes) -> int:
        sizes = {name: math.prod(size) for name, size in axes.sizes.items()} | arguments
        return flops(**{name: sizes[name] for name in inspect.signature(flops).parameters})

    @property
    def has_cell(self) -> bool:
        """Whether one output number of this equation can be written out as arithmetic."""
        return self._cell is not None

    def arithmetic(self, index: Sequence[int], arguments: Mapping[str, object]) -> str:
        """The arithmetic that gives the output number at `index` from arguments by name, without the result."""
        if self._cell is None:
            raise EquationError(f"{self.name}: has no cell arithmetic")
        with no_checks(), torch.no_grad():
            return self._cell(tuple(index), **{name: arguments[name] for name in self._cell_needs})

    def cell(self, index: Sequence[int] | int, *args: P.args, **kwargs: P.kwargs) -> str:
        """How the output number at `index` was made, in arithmetic."""
        self.check(*args, **kwargs)
        with no_checks(), torch.no_grad():
            result = self.fn(*args, **kwargs)
        first = result[0] if isinstance(result, tuple) else result
        at = self._index(index, first.shape if isinstance(first, Tensor) else torch.Size())
        text = self.arithmetic(at, self.bind(args, kwargs))
        value = first[at] if isinstance(first, Tensor) else first
        return f"{text} = {number(cast(float, value))}"

    def _index(self, index: Sequence[int] | int, shape: torch.Size) -> tuple[int, ...]:
        """The index of one output number as given, if there is such a number."""
        at = tuple(index) if isinstance(index, Sequence) else (index,)
        fits = len(at) == len(shape) and all(isinstance(i, int) for i in at)
        if not fits or not all(-size <= i < size for i, size in zip(at, shape, strict=True)):
            wanted = f"{len(shape)} whole numbers" if len(shape) != 1 else "1 whole number"
            raise EquationError(f"{self.name}: index is {index!r}, wanted {wanted} within the output {list(shape)}")
        return at


AnyEquation: TypeAlias = Equation[..., object]


class _Calls(reference_mode):
    """Reference mode that also notes which equations an equation calls, and with what."""

    def __init__(self) -> None:
        self.made: list[tuple[AnyEquation, dict[str, object]]] = []

    def record(self, equation: AnyEquation, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Note one call, but not the calls inside it."""
        self.made.append((equation, equation.bind(args, kwargs)))
        with _Calls():
            return equation.fn(*args, **kwargs)


def equation(
    latex: str,
    *,
    meaning: str,
    intuition: str = "",
    symbols: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    flops: Callable[..., int] | None = None,
    where: Mapping[str, Callable[..., None]] | None = None,
    upcast: bool = False,
) -> Callable[[Callable[P, R]], Equation[P, R]]:
    """Make a plain function an `Equation` and enter it in the catalog under its own name.

    `symbols` says in words what each letter stands for; names that are not arguments are the outputs, in order; a key
    `"q=Q"` gives the letter as the formula writes it, `"device="` is not in it. `names` declares what a trace calls the
    tensors behind letters: `{"a": "weights"}` makes `layers.0.attention.weights`. `flops` counts operations from axis
    sizes and settings by name. `where` holds arguments to conditions, which get `require` and arguments by name:
    `{"q k v": same_dtype}`. `upcast` computes half precision in float32 and rounds once, as fused kernels do.
    """

    def make(fn: Callable[P, R]) -> Equation[P, R]:
        made = Equation(fn, symbols, names or {}, upcast)
        made.latex, made.meaning, made.intuition, made.flops, made.where = latex, meaning, intuition, flops, where or {}
        if made.name in _CATALOG:
            raise ValueError(f"two equations are called {made.name}")
        _CATALOG[made.name] = cast(AnyEquation, made)
        return made

    return make


def catalog() -> dict[str, AnyEquation]:
    """Every equation by name, in the order of their files."""
    return dict(_CATALOG)


def _upcast_to_float32(fn: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(fn)
    def upcast(*args: P.args, **kwargs: P.kwargs) -> R:
        narrow = next((a.dtype for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a.dtype in _HALF), None)
        if narrow is None:
            return fn(*args, **kwargs)
        result = fn(*map(_to_float, args), **{name: _to_float(value) for name, value in kwargs.items()})  # pyright: ignore
        if isinstance(result, tuple):
            return cast(R, tuple(_round(item, narrow) for item in result))
        return cast(R, _round(result, narrow))

    return upcast


def _to_float(value: object) -> object:
    return value.float() if isinstance(value, Tensor) and value.dtype in _HALF else value


def _round(value: object, dtype: torch.dtype) -> object:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def _to_meta(value: object) -> object:
    if isinstance(value, Tensor):
        return value.to("meta")
    if isinstance(value, (list, tuple)):
        return type(value)(_to_meta(item) for item in value)
    return value


def tensors_in(value: object) -> list[Tensor]:
    """Every tensor in a value, with lists and tuples flattened."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
