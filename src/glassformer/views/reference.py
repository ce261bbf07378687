"""The quick reference: each equation of the catalog as plain data, to print or to write down."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import cast

import glassformer.equations  # noqa: F401 - importing it fills the catalog
from glassformer.entry import Entry
from glassformer.equation import AnyEquation, Equation, catalog

# Meaning of each axis name. `make docs` fails on an axis of an annotation that is missing here.
AXES = {
    "batch": "vectors, tokens or sequences computed independently",
    "bounds": "first tokens of the documents of a row, and the number of its tokens",
    "buckets": "ranges of relative position that share one learned bias",
    "bytes": "bytes that each pack several quantized weights",
    "channels": "channels of a picture: 1 for gray, 3 for red, green and blue",
    "classes": "classes to choose from",
    "columns": "columns of a matrix",
    "dim": "model dimension: the size of a hidden state",
    "examples": "examples that share their statistics",
    "features": "numbers of a patch: its pixels in every channel",
    "groups": "groups of weights that share one scale",
    "head_dim": "dimension of an attention head: the size of a query or a key",
    "heads": "attention heads",
    "height": "rows of pixels",
    "images": "images, each compared with every text",
    "inner": "axis that a matrix product sums over",
    "inputs": "input features of a linear layer",
    "k": "number of results kept, as in top-k",
    "kernel_height": "rows of a filter",
    "kernel_width": "columns of a filter",
    "keys": "key positions, which are attended to",
    "kv_batch": "sequences and key-value heads, each of which may serve several query heads",
    "kv_heads": "key-value heads, each shared by several query heads",
    "longer": "sequence positions, one more than before",
    "n": "entries along the last axis",
    "left": "tokens of one text",
    "new": "new tokens, written to a cache",
    "out_height": "rows of the picture that comes out",
    "out_width": "columns of the picture that comes out",
    "outputs": "output features of a linear layer",
    "pairs": "pairs of features that rotary embedding rotates together",
    "patches": "patches of a picture, row by row",
    "queries": "query positions, which attend",
    "rank": "features between two low-rank matrices",
    "right": "tokens of another text",
    "rows": "rows of a matrix",
    "seen": "tokens that have already appeared",
    "seq": "sequence positions, counted from 0",
    "shape": "any shape; the equation is elementwise",
    "sides": "start and end of a span",
    "size": "entries of a parameter, or number of distinct ids",
    "sliced": "the same shape, with the sliced axis shorter",
    "slots": "token slots of a KV cache",
    "suppressed": "token ids to suppress",
    "texts": "texts, each compared with every image",
    "value_dim": "size of a value inside one head",
    "vocab": "tokens of the vocabulary",
    "width": "columns of pixels",
    "words": "candidates for the neighbor of a word: the true one, then noise words",
}


def entries() -> tuple[Entry, ...]:
    """Every equation of the catalog, in the order of their files."""
    return tuple(_entry(equation) for equation in catalog().values())


def themes() -> dict[str, tuple[Entry, ...]]:
    """Every equation by theme, which is the file that defines it."""
    found = entries()
    return {theme: tuple(e for e in found if e.theme == theme) for theme in dict.fromkeys(e.theme for e in found)}


def _entry(equation: Equation[..., object]) -> Entry:
    formula: Callable[..., object] = inspect.unwrap(equation.fn)
    file, line = inspect.getfile(formula), inspect.getsourcelines(formula)[1]
    shapes = [shape for each in (*equation.parameters, *equation.results) for shape in each.shapes]
    return Entry(
        name=equation.name,
        theme=formula.__module__.rpartition(".")[2],
        latex=equation.latex,
        meaning=equation.meaning,
        intuition=equation.intuition,
        summary=(inspect.getdoc(formula) or "").partition("\n")[0],
        symbols=equation.symbols,
        axes=tuple(dict.fromkeys(axis.name for shape in shapes for axis in shape.axes if axis.name.isidentifier())),
        gradient=equation.gradient.latex if equation.gradient else None,
        flops=flops_text(equation) or None,
        fused=equation.fused is not None,
        file=file,
        line=line,
    )


def flops_text(equation: AnyEquation) -> str:
    """The operation count as a formula, read from the source of the function that computes it."""
    if equation.flops is None:
        return ""
    inline = equation.flops.__name__ == "<lambda>"
    tree = ast.parse(textwrap.dedent(inspect.getsource(equation.fn if inline else equation.flops)))
    formula = next(node for node in ast.walk(tree) if isinstance(node, ast.Lambda if inline else ast.Return))
    counted = formula.body if isinstance(formula, ast.Lambda) else formula.value
    return ast.unparse(cast(ast.expr, counted)).replace(" ** ", "^").replace(" * ", "·")
