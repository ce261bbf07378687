"""Sinusoidal position encodings, and the matrix that shifts them."""

from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import at_least, float_dtype, positive, whole
from glassformer.equations.rotary import EXACT, rotary, rotary_frequencies
from glassformer.equations.special_ranges import even, one_of

_ORDERS = {"adjacent": "(pairs two)", "halves": "(two pairs)"}


@equation(
    r"P_{p,2i} = \sin(p\, b^{-2i/d}), \quad P_{p,2i+1} = \cos(p\, b^{-2i/d})",
    meaning="Each position gets a vector of sines and cosines, one pair for each of many frequencies.",
    intuition="The digits of a counter, made smooth: the first pair flickers with every step, the last hardly moves.",
    symbols={
        "positions=p": "positions p in any order, or a length n for 0 to n − 1",
        "dim=d": "dimension d of an encoding, even",
        "base=b": "base b: the slowest pair takes 2π b^((d − 2)/d) positions for one turn",
        "layout=": "a sine beside its cosine, or all sines before all cosines",
        "dtype=": "dtype of the result; sines are taken in float64",
        "P": "one encoding per position",
    },
    where={"dim": even, "base": positive, "layout": one_of("adjacent", "halves"), "dtype": float_dtype},
)
def sinusoidal_positions(
    positions: Int[Tensor, "*shape"] | int,
    dim: int,
    base: float = 10000.0,
    layout: Literal["adjacent", "halves"] = "adjacent",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*shape dim"]:
    """Encode positions by sines and cosines, interleaved as in Vaswani et al. (2017) or in two halves."""
    p = torch.arange(positions) if isinstance(positions, int) else positions
    angle = p[..., None].double() * rotary_frequencies.fn(dim, base, torch.float64, p.device)
    return rearrange([angle.sin(), angle.cos()], f"two ... pairs -> ... {_ORDERS[layout]}").to(dtype)


@sinusoidal_positions.def_cost
def _sinusoidal_positions_cost(positions: Tensor | int, dim: int) -> int:
    length = positions if isinstance(positions, int) else positions.numel()
    return 3 * (length + 1) * (dim // 2)


@sinusoidal_positions.def_cell
def _sinusoidal_positions_cell(
    index: tuple[int, ...], positions: Tensor | int, dim: int, base: float, layout: str
) -> str:
    pair, second = divmod(index[-1], 2) if layout == "adjacent" else divmod(index[-1], dim // 2)[::-1]
    p = index[0] if isinstance(positions, int) else int(positions[index[:-1]])
    return f"{'cos' if second else 'sin'}({number(p, EXACT)}·{number(base, EXACT)}^({number(-2 * pair)}/{dim}))"


@sinusoidal_positions.def_check
def _sinusoidal_positions_check(positions: object) -> None:
    if not isinstance(positions, Tensor):
        at_least(0)(sinusoidal_positions.require, positions=positions)


@equation(
    r"P_{(i,j)} = [S_i;\, S_j], \quad S_{p,2k} = \sin(p\, b^{-4k/d}), \quad S_{p,2k+1} = \cos(p\, b^{-4k/d})",
    meaning="Each patch gets a vector of sines and cosines: one half says its row, the other its column.",
    intuition="The row and the seat on a theater ticket.",
    symbols={
        "rows=": "rows of patches",
        "columns=": "columns of patches",
        "dim=d": "dimension d of an encoding, a multiple of 4",
        "base=b": "base b of the wavelengths",
        "dtype=": "dtype of the result; sines are taken in float64",
        "device=": "device",
        "P": "one encoding per patch, row by row",
    },
    flops=lambda rows, columns, dim: 3 * (rows + columns + 2) * (dim // 4),
    where={"rows": whole, "columns": whole, "base": positive, "dtype": float_dtype},
)
def sinusoidal_positions_2d(
    rows: int,
    columns: int,
    dim: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "patches dim"]:
    """Encode the row and the column of every patch by sines and cosines, half of the dimensions each."""
    sides = (torch.arange(count, device=device) for count in (rows, columns))
    row, column = (sinusoidal_positions.fn(side, dim // 2, base, "adjacent", dtype) for side in sides)
    return torch.cat([row.repeat_interleave(columns, 0), column.repeat(rows, 1)], -1)


@sinusoidal_positions_2d.def_cell
def _sinusoidal_positions_2d_cell(index: tuple[int, ...], columns: int, dim: int, base: float) -> str:
    (row, column), (second, feature) = divmod(index[0], columns), divmod(index[1], dim // 2)
    pair, cosine = divmod(feature, 2)
    return f"{'cos' if cosine else 'sin'}({column if second else row}·{number(base)}^({number(-4 * pair)}/{dim}))"


@sinusoidal_positions_2d.def_check
def _sinusoidal_positions_2d_check(dim: int) -> None:
    fits = isinstance(dim, int) and dim > 0 and dim % 4 == 0
    sinusoidal_positions_2d.require(fits, "dim", dim, "a positive multiple of 4")


@equation(
    r"M_k = \bigoplus_i \begin{pmatrix} \cos k\omega_i & -\sin k\omega_i \\ \sin k\omega_i & \cos k\omega_i"
    r" \end{pmatrix}, \quad P_{p+k} = P_p M_k, \quad \omega_i = b^{-2i/d}",
    meaning="One fixed matrix moves any sinusoidal encoding on by the same number of positions.",
    intuition="Turning every hand of a clock on by three hours, whatever the time was.",
    symbols={
        "offset=k": "number of positions k to move on",
        "dim=d": "dimension d of an encoding, even",
        "base=b": "base b of the encoding",
        "dtype=": "dtype",
        "device=": "device",
        "M": "matrix to multiply encodings with, from the right",
    },
    flops=lambda dim: 3 * dim * dim + 3 * (dim + 1) * (dim // 2),
    where={"offset": at_least(-(2**53)), "dim": even, "base": positive, "dtype": float_dtype},
)
def shift_matrix(
    offset: int,
    dim: int,
    base: float = 10000.0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "dim dim"]:
    """Write a shift of position as a matrix: a shift is a linear map (Vaswani et al., 2017)."""
    k = torch.full((dim,), offset, device=device)
    # A rotation acts on columns, an encoding (sin, cos) is a row: so each unit row is turned backward.
    return rotary.fn(torch.eye(dim, dtype=torch.float64, device=device), -k, base).to(dtype)


@shift_matrix.def_cell
def _shift_matrix_cell(index: tuple[int, ...], offset: int, dim: int, base: float) -> str:
    row, column = index
    if row // 2 != column // 2:
        return "0"
    angle = f"{number(offset, EXACT)}·{number(base, EXACT)}^({number(-(row // 2) * 2)}/{dim})"
    return f"cos({angle})" if row == column else f"{'−' if row < column else ''}sin({angle})"
