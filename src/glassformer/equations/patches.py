"""Pictures as sequences: cut into patches, put together again, prepend a class token."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import whole


@equation(
    r"y_{(i,j),\,(c,a,b)} = x_{c,\; iP + a,\; jP + b}",
    meaning="A picture is cut into square patches; each becomes a vector of its pixels.",
    intuition="A photograph cut into tiles that are laid out in reading order.",
    symbols={
        "x": "pictures",
        "size=P": "side P of a patch in pixels",
        "y": "patches, row by row; of each its channels, and of each channel its rows",
    },
    flops=lambda: 0,
    where={"size": whole},
)
def patchify(x: Float[Tensor, "*batch channels height width"], size: int) -> Float[Tensor, "*batch patches features"]:
    """Cut pictures into patches, in the order of a convolution's kernel (Dosovitskiy et al., 2021)."""
    return rearrange(x, "... c (rows a) (columns b) -> ... (rows columns) (c a b)", a=size, b=size)


@patchify.def_fused
def _patchify_fused(x: Tensor, size: int) -> Tensor:
    *batch, channels, height, width = x.shape
    cut = x.reshape(*batch, channels, height // size, size, width // size, size)
    return cut.movedim((-4, -2), (-5, -4)).reshape(*batch, -1, channels * size * size)


@patchify.def_gradient(r"\bar x_{c,\; iP + a,\; jP + b} = \bar y_{(i,j),\,(c,a,b)}")
def _patchify_gradient(y_bar: Tensor, x: Tensor, size: int) -> Tensor:
    return unpatchify.fn(y_bar, size, x.shape[-2] // size)


@patchify.def_cell
def _patchify_cell(index: tuple[int, ...], x: Tensor, size: int) -> str:
    *batch, patch, feature = index
    (row, column), (channel, rest) = divmod(patch, x.shape[-1] // size), divmod(feature, size * size)
    return number(x[(*batch, channel, row * size + rest // size, column * size + rest % size)])


@patchify.def_check
def _patchify_check(x: Tensor, size: int) -> None:
    sides = f"{x.shape[-2]} × {x.shape[-1]}"
    patchify.require(x.shape[-2] % size == x.shape[-1] % size == 0, "size", size, f"a divisor of the sides {sides}")


@equation(
    r"y_{c,\; iP + a,\; jP + b} = x_{(i,j),\,(c,a,b)}",
    meaning="Patches are put together to the picture they were cut from.",
    intuition="The tiles back on the wall.",
    symbols={
        "x": "patches, row by row",
        "size=P": "side P of a patch in pixels",
        "rows=": "rows of patches in a picture",
        "y": "pictures",
    },
    flops=lambda: 0,
    where={"size": whole, "rows": whole},
)
def unpatchify(
    x: Float[Tensor, "*batch patches features"], size: int, rows: int
) -> Float[Tensor, "*batch channels height width"]:
    """Put patches together to pictures; the inverse of `patchify`."""
    return rearrange(x, "... (rows columns) (c a b) -> ... c (rows a) (columns b)", rows=rows, a=size, b=size)


@unpatchify.def_gradient(r"\bar x_{(i,j),\,(c,a,b)} = \bar y_{c,\; iP + a,\; jP + b}")
def _unpatchify_gradient(y_bar: Tensor, size: int) -> Tensor:
    return patchify.fn(y_bar, size)


@unpatchify.def_cell
def _unpatchify_cell(index: tuple[int, ...], x: Tensor, size: int, rows: int) -> str:
    *batch, channel, row, column = index
    patch = row // size * (x.shape[-2] // rows) + column // size
    return number(x[(*batch, patch, (channel * size + row % size) * size + column % size)])


@unpatchify.def_check
def _unpatchify_check(x: Tensor, size: int, rows: int) -> None:
    unpatchify.require(x.shape[-2] % rows == 0, "rows", rows, f"a divisor of the {x.shape[-2]} patches")
    fits = x.shape[-1] % (size * size) == 0
    unpatchify.require(fits, "size", size, f"one whose square divides the {x.shape[-1]} numbers of a patch")


@equation(
    r"y = [c;\, x_0;\, x_1;\, \dots]",
    meaning="One learned vector is put before every sequence, to gather what the whole of it says.",
    intuition="An empty chair at the head of the table, for whoever sums up.",
    symbols={"c": "learned class token", "x": "sequences", "y": "sequences that are one longer"},
    flops=lambda: 0,
)
def prepend_token(c: Float[Tensor, " dim"], x: Float[Tensor, "*batch seq dim"]) -> Float[Tensor, "*batch longer dim"]:
    """Put a class token before every sequence (BERT: Devlin et al., 2018; ViT: Dosovitskiy et al., 2021)."""
    return torch.cat([c.to(x.dtype).expand(*x.shape[:-2], 1, -1), x], -2)


@prepend_token.def_gradient(r"\bar c = \sum_{\text{batch}} \bar y_0, \quad \bar x_t = \bar y_{t+1}")
def _prepend_token_gradient(y_bar: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return y_bar[..., 0, :].reshape(-1, len(c)).sum(0).to(c.dtype), y_bar[..., 1:, :]


@prepend_token.def_cell
def _prepend_token_cell(index: tuple[int, ...], c: Tensor, x: Tensor) -> str:
    *batch, position, column = index
    return number(x[(*batch, position - 1, column)] if position else c[column])
