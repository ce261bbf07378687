"""Plumbing between one wide row and several narrow ones: split, merge, take, share and join."""

from collections.abc import Sequence

import torch
from einops import rearrange, reduce, repeat
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation


@equation(
    r"y_{h,s,:} = x_{s,\,hd:(h+1)d}",
    meaning="Each row is cut into equal pieces, one for each head.",
    intuition="A meeting breaks into working groups, and each takes its share of the agenda.",
    symbols={"x": "wide rows", "heads": "number of heads", "y": "narrow rows by head"},
    flops=lambda: 0,
)
def split_heads(x: Float[Tensor, "*batch seq dim"], heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    """Cut the width into heads and move the heads in front of the sequence (Vaswani et al., 2017)."""
    return rearrange(x, "... seq (heads head_dim) -> ... heads seq head_dim", heads=heads)


@split_heads.def_fused
def _split_heads_fused(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


@split_heads.def_gradient(r"\bar x_{s,\,hd:(h+1)d} = \bar y_{h,s,:}")
def _split_heads_gradient(y_bar: Tensor) -> Tensor:
    return merge_heads.fn(y_bar)


@split_heads.def_cell
def _split_heads_cell(index: tuple[int, ...], x: Tensor, heads: int) -> str:
    *batch, head, row, column = index
    return number(x[(*batch, row, head * (x.shape[-1] // heads) + column)])


@split_heads.def_check
def _split_heads_check(x: Tensor, heads: int) -> None:
    split_heads.require(heads >= 1, "heads", heads, "at least 1")
    split_heads.require(
        x.shape[-1] % heads == 0, "x", f"{x.shape[-1]} wide", f"a width that {heads} heads divide evenly"
    )


@equation(
    r"y_{s,\,hd:(h+1)d} = x_{h,s,:}",
    meaning="The heads' rows are laid end to end again.",
    intuition="The working groups come back and read their notes out one after another.",
    symbols={"x": "narrow rows by head", "y": "wide rows"},
    flops=lambda: 0,
)
def merge_heads(x: Float[Tensor, "*batch heads seq head_dim"]) -> Float[Tensor, "*batch seq dim"]:
    """Lay the heads side by side; the inverse of `split_heads`."""
    return rearrange(x, "... heads seq head_dim -> ... seq (heads head_dim)")


@merge_heads.def_fused
def _merge_heads_fused(x: Tensor) -> Tensor:
    return x.transpose(-3, -2).flatten(-2)


@merge_heads.def_gradient(r"\bar x_{h,s,:} = \bar y_{s,\,hd:(h+1)d}")
def _merge_heads_gradient(y_bar: Tensor, x: Tensor) -> Tensor:
    return split_heads.fn(y_bar, x.shape[-3])


@merge_heads.def_cell
def _merge_heads_cell(index: tuple[int, ...], x: Tensor) -> str:
    *batch, row, column = index
    return number(x[(*batch, column // x.shape[-1], row, column % x.shape[-1])])


@equation(
    r"y_h = x_{\lfloor h g / H \rfloor}",
    meaning="Each key-value head serves a group of query heads.",
    intuition="One reference book on the table for a whole group of readers.",
    symbols={"x": "rows of the shared heads", "heads": "number of query heads", "y": "one copy for each query head"},
    flops=lambda: 0,
)
def repeat_kv(
    x: Float[Tensor, "*batch groups keys head_dim"], heads: int
) -> Float[Tensor, "*batch heads keys head_dim"]:
    """Repeat each key-value head for its group of query heads (Ainslie et al., 2023)."""
    return repeat(x, "... groups keys dim -> ... (groups shared) keys dim", shared=heads // x.shape[-3])


@repeat_kv.def_gradient(r"\bar x_g = \sum_{h \in g} \bar y_h")
def _repeat_kv_gradient(y_bar: Tensor, x: Tensor) -> Tensor:
    return reduce(y_bar, "... (groups shared) keys dim -> ... groups keys dim", "sum", groups=x.shape[-3])


@repeat_kv.def_cell
def _repeat_kv_cell(index: tuple[int, ...], x: Tensor, heads: int) -> str:
    *batch, head, key, column = index
    return number(x[(*batch, head * x.shape[-3] // heads, key, column)])


@repeat_kv.def_check
def _repeat_kv_check(x: Tensor, heads: int) -> None:
    repeat_kv.require(heads >= 1, "heads", heads, "at least 1")
    repeat_kv.require(heads % x.shape[-3] == 0, "heads", heads, f"a multiple of the {x.shape[-3]} shared heads")


@equation(
    r"y = [x_1; x_2; \dots]",
    meaning="Tensors are laid end to end along one axis.",
    intuition="Beads of several strings threaded onto one.",
    symbols={"parts": "the tensors", "axis": "the axis they grow along", "y": "all of them in one"},
    flops=lambda: 0,
)
def concat(parts: Sequence[Float[Tensor, "..."]], axis: int = -1) -> Float[Tensor, "..."]:
    """Join tensors along an axis; all other axes must agree."""
    return torch.cat(list(parts), axis)


@concat.def_gradient(r"\bar x_i = \text{the part of } \bar y \text{ that came from } x_i")
def _concat_gradient(y_bar: Tensor, parts: Sequence[Tensor], axis: int) -> list[Tensor]:
    return list(y_bar.split([part.shape[axis] for part in parts], axis))


@concat.def_cell
def _concat_cell(index: tuple[int, ...], parts: Sequence[Tensor], axis: int) -> str:
    return number(concat.fn(parts, axis)[index])


@concat.def_check
def _concat_check(parts: Sequence[Tensor], axis: int) -> None:
    concat.require(len(parts) > 0, "parts", "empty", "at least one tensor")
    first = parts[0]
    concat.require(-first.dim() <= axis < first.dim(), "axis", axis, f"an axis of {list(first.shape)}")
    for part in parts[1:]:
        alike = part.dim() == first.dim() and all(
            part.shape[i] == first.shape[i] for i in range(first.dim()) if i != axis % first.dim()
        )
        concat.require(alike, "parts", [list(p.shape) for p in parts], f"shapes that agree but on axis {axis}")
