"""Heads: slice a fused projection, split it into heads, repeat key-value heads, merge."""

from einops import rearrange, reduce, repeat
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import whole


@equation(
    r"y = x_{\ldots,\,a:b,\,\ldots}",
    meaning="A contiguous piece of one axis is taken.",
    intuition="Scissors along two marks.",
    symbols={
        "x": "tensor",
        "axis=": "axis to slice; negative counts from the last",
        "start=a": "first index taken",
        "stop=b": "index after the last one taken",
        "y": "slice",
    },
    flops=lambda: 0,
)
def slice_axis(x: Float[Tensor, "*shape"], axis: int, start: int, stop: int) -> Float[Tensor, "*sliced"]:
    """Indices `start` to `stop` of one axis: gates of an LSTM, heads of a fused projection, filled cache slots."""
    return x.narrow(axis, start, stop - start)


@slice_axis.def_gradient(r"\bar x_{\ldots,\,a:b,\,\ldots} = \bar y, \; 0 \text{ elsewhere}")
def _slice_axis_gradient(y_bar: Tensor, x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    before = [0, 0] * (x.dim() - 1 - axis % x.dim())  # padding is given from the last axis back
    return functional.pad(y_bar, (*before, start, x.shape[axis] - stop))


@slice_axis.def_cell
def _slice_axis_cell(index: tuple[int, ...], x: Tensor, axis: int, start: int) -> str:
    there = list(index)
    there[axis] += start
    return number(x[tuple(there)])


@slice_axis.def_check
def _slice_axis_check(x: Tensor, axis: int, start: int, stop: int) -> None:
    slice_axis.require(-x.dim() <= axis < x.dim(), "axis", axis, f"one of the {x.dim()} axes")
    slice_axis.require(0 <= start <= stop <= x.shape[axis], "stop", f"{start}:{stop}", f"a slice of 0:{x.shape[axis]}")


@equation(
    r"y_{h,s,:} = x_{s,\,hd:(h+1)d}",
    meaning="Each vector is split into equal parts, one per head.",
    intuition="A meeting breaks into working groups, and each takes its part of the agenda.",
    symbols={"x": "queries, keys or values of all heads together", "heads=": "number of heads", "y": "one per head"},
    flops=lambda: 0,
    where={"heads": whole},
)
def split_heads(x: Float[Tensor, "*batch seq dim"], heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    """Split the last axis into heads and move the heads before the sequence (Vaswani et al., 2017)."""
    return rearrange(x, "... seq (heads head_dim) -> ... heads seq head_dim", heads=heads)


split_heads.def_fused(lambda x, heads: x.unflatten(-1, (heads, -1)).transpose(-3, -2))


@split_heads.def_gradient(r"\bar x_{s,\,hd:(h+1)d} = \bar y_{h,s,:}")
def _split_heads_gradient(y_bar: Tensor) -> Tensor:
    return merge_heads.fn(y_bar)


@split_heads.def_cell
def _split_heads_cell(index: tuple[int, ...], x: Tensor, heads: int) -> str:
    *batch, head, position, column = index
    return number(x[(*batch, position, head * (x.shape[-1] // heads) + column)])


@split_heads.def_check
def _split_heads_check(x: Tensor, heads: int) -> None:
    shape = f"of shape {list(x.shape)}"
    split_heads.require(x.shape[-1] % heads == 0, "x", shape, f"a last axis that {heads} heads divide evenly")


@equation(
    r"y_{s,\,hd:(h+1)d} = x_{h,s,:}",
    meaning="The vectors of all heads are concatenated again.",
    intuition="The working groups come back and read their notes out one after another.",
    symbols={"x": "outputs by head", "y": "outputs of all heads together"},
    flops=lambda: 0,
)
def merge_heads(x: Float[Tensor, "*batch heads seq head_dim"]) -> Float[Tensor, "*batch seq dim"]:
    """Concatenate the heads; the inverse of `split_heads`."""
    return rearrange(x, "... heads seq head_dim -> ... seq (heads head_dim)")


merge_heads.def_fused(lambda x: x.transpose(-3, -2).flatten(-2))


@merge_heads.def_gradient(r"\bar x_{h,s,:} = \bar y_{s,\,hd:(h+1)d}")
def _merge_heads_gradient(y_bar: Tensor, x: Tensor) -> Tensor:
    return split_heads.fn(y_bar, x.shape[-3])


@merge_heads.def_cell
def _merge_heads_cell(index: tuple[int, ...], x: Tensor) -> str:
    *batch, position, column = index
    return number(x[(*batch, column // x.shape[-1], position, column % x.shape[-1])])


@equation(
    r"y_h = x_{\lfloor h g / H \rfloor}",
    meaning="Each key-value head serves a group of query heads.",
    intuition="One reference book on the table for a whole group of readers.",
    symbols={"x": "keys or values by key-value head", "heads=H": "number of query heads", "y": "one per query head"},
    flops=lambda: 0,
    where={"heads": whole},
)
def repeat_kv(
    x: Float[Tensor, "*batch kv_heads keys head_dim"], heads: int
) -> Float[Tensor, "*batch heads keys head_dim"]:
    """Repeat each key-value head for its group of query heads (grouped-query attention: Ainslie et al., 2023)."""
    return repeat(x, "... kv_heads keys dim -> ... (kv_heads group) keys dim", group=heads // x.shape[-3])


@repeat_kv.def_gradient(r"\bar x_g = \sum_{h \in g} \bar y_h")
def _repeat_kv_gradient(y_bar: Tensor, x: Tensor) -> Tensor:
    return reduce(y_bar, "... (kv_heads group) keys dim -> ... kv_heads keys dim", "sum", kv_heads=x.shape[-3])


@repeat_kv.def_cell
def _repeat_kv_cell(index: tuple[int, ...], x: Tensor, heads: int) -> str:
    *batch, head, key, column = index
    return number(x[(*batch, head * x.shape[-3] // heads, key, column)])


@repeat_kv.def_check
def _repeat_kv_check(x: Tensor, heads: int) -> None:
    repeat_kv.require(heads % x.shape[-3] == 0, "heads", heads, f"a multiple of the {x.shape[-3]} key-value heads")


def four_axes(t: Tensor) -> Tensor:
    """The same tensor with four axes, as fused kernels need it: batch, heads, positions, head_dim."""
    while t.dim() < 4:
        t = t.unsqueeze(0)
    return t.flatten(0, -4)
