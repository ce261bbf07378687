"""What a step of a lesson holds: words, equations as they ran, gradients, tables, curves, claims that were checked."""

from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import Equation
from glassformer.views.curves import Curve
from glassformer.worked.comparing import Standing

WRITTEN_OUT = 24  # numbers of an input that are written out; of a longer one only its shape is told


@dataclass(frozen=True)
class Prose:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Operand:
    """A letter of an equation and what it stood for."""

    name: str
    meaning: str
    value: object = field(repr=False)


@dataclass(frozen=True)
class Work:
    """One equation as the tape recorded it: what went in, what came out, the arithmetic of chosen numbers."""

    equation: Equation[..., object]
    inputs: tuple[Operand, ...]
    output: Operand
    cells: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    again: bool = False  # shown before on the same page, formula and all


@dataclass(frozen=True)
class Slope:
    """A gradient as the tape's reverse run found it, and the rules of the equations that sent it back."""

    name: str
    value: Tensor = field(repr=False)
    rules: tuple[Equation[..., object], ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grid:
    """A table of words and numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    """Curves over one axis."""

    title: str
    curves: tuple[Curve, ...]
    across: str
    logarithmic: bool = False
    joined: bool = True


@dataclass(frozen=True)
class Claim:
    """A sentence that was checked while the lesson ran."""

    text: str


@dataclass(frozen=True)
class Beside:
    """Our numbers beside those in print."""

    example: str
    where: str
    rows: tuple[tuple[str, str, str], ...]
    standing: Standing | None  # none where nothing is in print
    how: str


@dataclass(frozen=True)
class Drawing:
    """A picture made of characters."""

    lines: tuple[str, ...]


PagePart: TypeAlias = Prose | Work | Slope | Grid | Chart | Claim | Beside | Drawing


@dataclass
class Page:
    """One step of a lesson."""

    title: str
    text: str = ""
    like: str = ""
    parts: list[PagePart] = field(default_factory=list)


def value_text(value: object, digits: int = 4) -> str:
    """A value in a line: numbers in few digits, a long table as its shape."""
    if isinstance(value, Tensor):
        if value.numel() > WRITTEN_OUT:
            return f"{'×'.join(map(str, value.shape))} numbers"
        return value_text(value.tolist(), digits)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) and abs(value) > 9999 else number(value, digits)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_text(item, digits) for item in value) + "]"
    return str(value)


def as_matrix(value: object) -> list[list[float]] | None:
    """The rows of a small table of numbers; nothing for what is better told in a line."""
    if not isinstance(value, Tensor) or value.dim() == 0 or not value.numel():
        return None
    flat = value.detach().double()
    while flat.dim() > 2 and flat.shape[0] == 1:
        flat = flat[0]
    if flat.dim() > 2:
        flat = flat.reshape(-1, flat.shape[-1])
    return (flat[None] if flat.dim() == 1 else flat).tolist()
