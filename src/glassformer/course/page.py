"""The parts of a lesson's page: text, equations as they ran, gradients, tables, charts, checked claims."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from torch import Tensor

from glassformer.arithmetic import DIGITS, MINUS, digits_apart, number
from glassformer.charts import Curve
from glassformer.course.blueprint import Blueprint
from glassformer.course.worked.comparing import Compared, Standing, entries_beside
from glassformer.equation import Equation

DIGITS_IN_LESSONS = 4
BROKEN = "this does not hold with your numbers"
VERDICTS = {
    None: "not in print, checked against the worked example",
    "reproduced": "the same as in print",
    "rounding": "badly rounded in print",
    "corrected": "wrong in print",
}
UNGROUPED = 9999  # larger integers are written with thousands separators, except in lists
WRITTEN_OUT = 24  # numbers of an input that are written out; of a larger one only its shape is shown
MOST_PRINTED = 15  # digits of a printed number, all of which are shown
SMALL_TABLE = 4  # numbers; in a larger table, one number with more decimals than the rest is an exception


@dataclass(frozen=True)
class Prose:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Operand:
    """A symbol of an equation and its value."""

    name: str
    meaning: str
    value: object = field(repr=False)


@dataclass(frozen=True)
class Work:
    """One equation as the tape recorded it: inputs, output, and the arithmetic of chosen numbers."""

    equation: Equation[..., object]
    inputs: tuple[Operand, ...]
    output: Operand
    cells: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    again: bool = False  # shown before on the same page, with its formula


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
    """A claim that was checked while the lesson ran; it may fail only in a notebook, with other numbers."""

    text: str
    holds: bool = True


@dataclass(frozen=True)
class InPrint:
    """One number as it is printed, and whether it is wrong."""

    text: str
    wrong: bool


@dataclass(frozen=True)
class BesideRow:
    """A row of a table: its name, our numbers, and those in print, if there are any."""

    name: str
    right: str
    printed: tuple[InPrint, ...] = ()
    listed: bool = False  # several numbers, in brackets


@dataclass(frozen=True)
class Beside:
    """Our numbers beside those in print."""

    example: str
    where: str
    rows: tuple[BesideRow, ...]
    standing: Standing | None  # None if nothing is printed
    how: str


@dataclass(frozen=True)
class Drawing:
    """A diagram made of characters, and as a picture where there is one."""

    lines: tuple[str, ...]
    plan: Blueprint | None = None


@dataclass(frozen=True)
class Choice:
    """A setting with several values, and what the equations give for each; a page has a control to choose one."""

    setting: str
    values: tuple[str, ...]
    parts: tuple[tuple["PagePart", ...], ...]
    start: int  # the value shown first, and in a terminal alone


PagePart: TypeAlias = Prose | Work | Slope | Grid | Chart | Claim | Beside | Drawing | Choice


@dataclass
class Page:
    """One step of a lesson."""

    title: str
    text: str = ""
    like: str = ""
    parts: list[PagePart] = field(default_factory=list)


def value_text(value: object, digits: int = DIGITS) -> str:
    """A value in one line: numbers in few digits, a large tensor as its shape."""
    if isinstance(value, Tensor):
        if value.numel() > WRITTEN_OUT:
            return f"{'×'.join(map(str, value.shape))} numbers"
        return value_text(value.tolist(), digits)
    if isinstance(value, (list, tuple)):
        return _list_text(value, digits, _largest_of(value))
    if isinstance(value, int) and abs(value) > UNGROUPED:
        return f"{value:,}".replace("-", MINUS)
    return _single_text(value, digits, 0.0)


def operand_texts(operands: Sequence[Operand]) -> list[str]:
    """The value of each operand; single numbers are given enough digits to tell them apart."""
    texts = [value_text(operand.value) for operand in operands]
    singles = [_single_number(operand.value) for operand in operands]
    known = [(value, text) for value, text in zip(singles, texts, strict=True) if value is not None]
    return [
        text if value is None else number(value, max(digits_apart(value, x) for x, other in known if other == text))
        for value, text in zip(singles, texts, strict=True)
    ]


def _single_number(value: object) -> float | None:
    """A value that is one floating-point number, else None."""
    if isinstance(value, Tensor) and value.dim() == 0 and value.is_floating_point():
        return float(value)
    return value if isinstance(value, float) else None


def _list_text(value: object, digits: int, among: float) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_list_text(item, digits, among) for item in value) + "]"
    if isinstance(value, Tensor):
        return value_text(value, digits)
    return _single_text(value, digits, among)


def _single_text(value: object, digits: int, among: float) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return str(value).replace("-", MINUS)
    return number(value, digits, among) if isinstance(value, float) else str(value)


def _largest_of(value: object) -> float:
    if isinstance(value, (list, tuple)):
        return max(map(_largest_of, value), default=0.0)
    return abs(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def part_text(shown: Sequence[Sequence[float]], whole: Sequence[Sequence[float]]) -> str:
    """Which part of a matrix is shown, such as `, the first 12 of 103 rows`; nothing if it is all of it."""
    sizes = ((len(shown), len(whole), "rows"), (len(shown[0]), len(whole[0]), "columns"))
    parts = [f"{part} of {size:,} {what}" for part, size, what in sizes if part < size]
    return f", the first {' and '.join(parts)}" if parts else ""


def as_matrix(value: object) -> list[list[float]] | None:
    """The rows of a tensor; None for what is better shown in one line."""
    if not isinstance(value, Tensor) or value.dim() == 0 or not value.numel():
        return None
    flat = value.detach().double()
    while flat.dim() > 2 and flat.shape[0] == 1:
        flat = flat[0]
    if flat.dim() > 2:
        flat = flat.reshape(-1, flat.shape[-1])
    return (flat[None] if flat.dim() == 1 else flat).tolist()


def rows_beside(key: str, computed: object, printed: object, decimals: int | None) -> Iterator[BesideRow]:
    """A line for each row of a table; `decimals` are those of the printed table, None for round figures."""
    found = sorted(_decimals(value) for value in _numbers_in(printed))
    # One number printed more exactly than all others does not make the others wrong.
    if decimals is not None and len(found) > SMALL_TABLE:
        decimals = min(decimals, found[-2])
    yield from _beside_rows(key, computed, printed, decimals)


def _beside_rows(key: str, computed: object, printed: object, decimals: int | None) -> Iterator[BesideRow]:
    if isinstance(computed, list) and computed and isinstance(computed[0], list):
        rows = printed if isinstance(printed, list) and len(printed) == len(computed) else [None] * len(computed)
        for i, (row, other) in enumerate(zip(computed, rows, strict=True)):
            yield from _beside_rows(f"{key}[{i}]", row, other, decimals)
    elif printed is None:
        yield BesideRow(key, value_text(computed))
    else:
        entries = entries_beside(key, printed, computed, decimals)
        listed = isinstance(computed, list) and len(entries) == len(computed)
        right = ", ".join(_rounded_alike(entry, decimals) for entry in entries)
        texts = [_printed(entry.printed, listed) for entry in entries]
        wrong = [entry.standing == "corrected" for entry in entries]
        shown = tuple(map(InPrint, texts, wrong))
        yield BesideRow(key, f"[{right}]" if listed else right, shown, listed)


def _rounded_alike(entry: Compared, decimals: int | None) -> str:
    """Our number with as many decimals as the printed one."""
    computed, printed = entry.value, entry.printed
    if isinstance(computed, bool) or not isinstance(computed, (int, float)) or not isinstance(printed, (int, float)):
        return value_text(computed)
    if decimals is None:
        return value_text(computed)
    least = _decimals(printed)
    text = f"{computed:.{max(decimals, least)}f}"
    while text.endswith("0") and len(text.partition(".")[2]) > least:
        text = text[:-1].removesuffix(".")
    return text.replace("-", MINUS) if float(text) else text.removeprefix("-")


def _numbers_in(printed: object) -> Iterator[float]:
    if isinstance(printed, list):
        for item in printed:
            yield from _numbers_in(item)
    elif isinstance(printed, (int, float)) and not isinstance(printed, bool):
        yield printed


def _decimals(printed: float) -> int:
    exponent = Decimal(repr(printed)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _printed(value: object, listed: bool) -> str:
    if isinstance(value, float):
        return number(value, MOST_PRINTED)
    return value_text([value])[1:-1] if listed else value_text(value)
