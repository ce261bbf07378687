"""Slice, index, stack and average along a sequence."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import number, summed
from glassformer.equation import equation
from glassformer.equations.ranges import whole


@equation(
    r"y = x_{\ldots,\,a:b,\,\ldots}",
    meaning="A contiguous piece of one axis is taken.",
    intuition="Scissors along two marks.",
    symbols={
        "x": "tensor",
        "axis": "axis to slice; negative counts from the last",
        "start": "first index taken",
        "stop": "index after the last one taken",
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
    r"y = x_t",
    meaning="One row is picked out of each sequence.",
    intuition="Asking one witness out of the queue.",
    symbols={"x": "sequences", "t": "which row; negative counts from the end", "y": "that row"},
    flops=lambda: 0,
)
def row_at(x: Float[Tensor, "*batch seq dim"], t: int) -> Float[Tensor, "*batch dim"]:
    """The row at position `t` of every sequence."""
    return x[..., t, :]


@row_at.def_gradient(r"\bar x_t = \bar y, \; 0 \text{ elsewhere}")
def _row_at_gradient(y_bar: Tensor, x: Tensor, t: int) -> Tensor:
    x_bar = torch.zeros_like(x)
    x_bar[..., t, :] = y_bar
    return x_bar


@row_at.def_cell
def _row_at_cell(index: tuple[int, ...], x: Tensor, t: int) -> str:
    return number(x[(*index[:-1], t, index[-1])])


@row_at.def_check
def _row_at_check(x: Tensor, t: int) -> None:
    row_at.require(-x.shape[-2] <= t < x.shape[-2], "t", t, f"a row of a sequence of {x.shape[-2]}")


@equation(
    r"y_t = x^{(t)}",
    meaning="Rows made one after another become a sequence.",
    intuition="Frames laid on one strip of film.",
    symbols={"rows": "rows in order", "y": "the sequence"},
    flops=lambda: 0,
)
def stack_rows(rows: Sequence[Float[Tensor, "*batch dim"]]) -> Float[Tensor, "*batch seq dim"]:
    """Stack rows along a new sequence axis before the last."""
    return torch.stack(list(rows), -2)


@stack_rows.def_gradient(r"\bar x^{(t)} = \bar y_t")
def _stack_rows_gradient(y_bar: Tensor) -> list[Tensor]:
    return list(y_bar.unbind(-2))


@stack_rows.def_cell
def _stack_rows_cell(index: tuple[int, ...], rows: Sequence[Tensor]) -> str:
    return number(rows[index[-2]][(*index[:-2], index[-1])])


@stack_rows.def_check
def _stack_rows_check(rows: Sequence[Tensor]) -> None:
    stack_rows.require(len(rows) > 0, "rows", "empty", "at least one row")


@equation(
    r"y = \frac{\sum_t m_t x_t}{\sum_t m_t}",
    meaning="A sequence becomes one row: the average of its real tokens.",
    intuition="The centre of gravity of the words, padding weighing nothing.",
    symbols={"x": "sequences", "keep": "true for real tokens; all of them if not given", "y": "one row each"},
    flops=lambda batch, seq, dim: batch * (2 * seq * dim + seq + 1 + dim),
    upcast=True,
)
def mean_pool(
    x: Float[Tensor, "*batch seq dim"], keep: Bool[Tensor, "*batch seq"] | None = None
) -> Float[Tensor, "*batch dim"]:
    """Average the rows that count; a sequence with none gives zeros."""
    m = torch.ones_like(x[..., :1]) if keep is None else keep.unsqueeze(-1).to(x.dtype)
    return (m * x).sum(-2) / m.sum(-2).clamp_min(1)


@mean_pool.def_gradient(r"\bar x_t = m_t \, \bar y / \textstyle\sum_t m_t")
def _mean_pool_gradient(y_bar: Tensor, x: Tensor, keep: Tensor | None) -> Tensor:
    m = torch.ones_like(x[..., :1]) if keep is None else keep.unsqueeze(-1).to(x.dtype)
    return m * (y_bar / m.sum(-2).clamp_min(1)).unsqueeze(-2)


@mean_pool.def_cell
def _mean_pool_cell(index: tuple[int, ...], x: Tensor, keep: Tensor | None) -> str:
    column = x[(*index[:-1], slice(None), index[-1])]
    kept = column if keep is None else column[keep[index[:-1]]]
    return f"({summed(kept)}) / {max(len(kept), 1)}"


@equation(
    r"r_{ij} = j - (\text{keys} - \text{queries} + i)",
    meaning="How far each key lies ahead of each query, where the last query stands at the last key.",
    intuition="Steps to every door of a corridor from where you stand: minus for those behind you.",
    symbols={
        "queries": "number of queries",
        "keys": "number of keys, those read from a cache included",
        "device": "where the result lives",
        "r": "position of the key less that of the query",
    },
)
def relative_positions(
    queries: int, keys: int, device: torch.device | str | None = None
) -> Int[Tensor, "queries keys"]:
    """Measure from every query to every key, both counted so that they end together."""
    j = torch.arange(keys, device=device)
    p = torch.arange(keys - queries, keys, device=device)
    return j - p[:, None]


@relative_positions.def_cell
def _relative_positions_cell(index: tuple[int, ...], queries: int, keys: int) -> str:
    return f"{index[1]} − ({keys} − {queries} + {index[0]})"


@relative_positions.def_check
def _relative_positions_check(queries: object, keys: object) -> None:
    whole(relative_positions.require, 0, queries=queries, keys=keys)
