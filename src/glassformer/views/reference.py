"""The quick reference: what the catalog knows of each equation, as plain data to print or to write down."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import glassformer.equations  # noqa: F401 - reading its files fills the catalog
from glassformer.equation import Equation, Symbol, catalog

# What the words of a shape count. A word that stands in an annotation and not here stops `make docs`.
AXES = {
    "batch": "independent examples worked on side by side",
    "buckets": "ranges of distance that share one learned number",
    "bytes": "bytes that hold several small numbers each",
    "classes": "categories to choose from",
    "columns": "columns of a matrix",
    "dim": "numbers that describe one token: the width of the model",
    "examples": "examples that share their statistics",
    "groups": "heads of keys and values, each shared by several heads of queries",
    "head_dim": "numbers that describe one token inside one head",
    "heads": "attention heads, which look for different things side by side",
    "inner": "the axis a product sums over",
    "inputs": "numbers going into a map",
    "k": "how many are kept",
    "keys": "positions that are looked at",
    "length": "positions asked for",
    "m": "entries of a piece of a row",
    "n": "entries of a row",
    "new": "tokens that have just come",
    "outputs": "numbers coming out of a map",
    "pairs": "pairs of numbers that turn together",
    "places": "positions that a table has a row for",
    "queries": "positions that look",
    "rows": "rows treated alike, each on its own",
    "seen": "tokens that have already appeared",
    "seq": "tokens in a row, counted from position 0",
    "shape": "axes of any number and size, worked on entry by entry",
    "size": "numbers of a parameter, or different values of an id",
    "slots": "places that a memory has for tokens",
    "some": "ids that are spoken of",
    "steps": "rows of one group, one after another",
    "stretch": "rows of a piece of a sequence",
    "value_dim": "numbers that describe one value inside one head",
    "vocab": "tokens the model knows",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One equation of the quick reference."""

    name: str
    theme: str
    latex: str
    meaning: str
    intuition: str
    summary: str
    symbols: tuple[Symbol, ...]
    axes: tuple[str, ...]
    gradient: str | None
    flops: str | None
    fused: bool
    file: str
    line: int


def entries() -> tuple[Entry, ...]:
    """Every equation of the catalog, in the order of their files."""
    return tuple(_entry(equation) for equation in catalog().values())


def themes() -> dict[str, tuple[Entry, ...]]:
    """Every equation by theme, a theme being the file it stands in."""
    found = entries()
    return {theme: tuple(e for e in found if e.theme == theme) for theme in dict.fromkeys(e.theme for e in found)}


def _entry(equation: Equation[..., object]) -> Entry:
    formula: Callable[..., object] = inspect.unwrap(equation.fn)
    file, line = inspect.getfile(formula), inspect.getsourcelines(formula)[1]
    return Entry(
        name=equation.name,
        theme=formula.__module__.rpartition(".")[2],
        latex=equation.latex,
        meaning=equation.meaning,
        intuition=equation.intuition,
        summary=(inspect.getdoc(formula) or "").partition("\n")[0],
        symbols=equation.symbols,
        axes=_axes(equation),
        gradient=equation.gradient.latex if equation.gradient else None,
        flops=equation.flops_text or None,
        fused=equation.fused is not None,
        file=file,
        line=line,
    )


def _axes(equation: Equation[..., object]) -> tuple[str, ...]:
    shapes = [shape for place in (*equation.parameters, *equation.results) for shape in place.shapes]
    return tuple(dict.fromkeys(axis.name for shape in shapes for axis in shape.axes if axis.name.isidentifier()))
