"""Where a token stands: encodings added to tokens, and biases added to scores.

Queries always end where the keys end: query i of n stands at position keys − n + i, so that the last
query of a cached decoding step sees what the last query of the whole sequence sees.
"""

import math
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.embedding import embed, scatter_rows
from glassformer.equations.ranges import even, float_type, positive, whole
from glassformer.equations.rotary import EXACT, rotary, rotary_frequencies
from glassformer.equations.sequences import relative_positions

_ORDERS = {"adjacent": "(pairs two)", "halves": "(two pairs)"}


@equation(
    r"P_{p,2i} = \sin(p\, b^{-2i/d}), \quad P_{p,2i+1} = \cos(p\, b^{-2i/d})",
    meaning="Each position gets a row of sines and cosines, one pair for each of many speeds.",
    intuition="The digits of a counter, made smooth: the first pair flickers with every step, the last hardly moves.",
    symbols={
        "length": "number of positions",
        "dim": "width d of a row, even",
        "base": "base b: the slowest pair takes 2π b^((d − 2)/d) positions for one turn",
        "start": "first position p",
        "layout": "a sine beside its cosine, or all sines before all cosines",
        "dtype": "number type of the result; sines are taken in float64",
        "device": "where the result lives",
        "P": "one row per position",
    },
    flops=lambda length, dim: 3 * (length + 1) * (dim // 2),
)
def sinusoidal_positions(
    length: int,
    dim: int,
    base: float = 10000.0,
    start: int = 0,
    layout: Literal["adjacent", "halves"] = "adjacent",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "length dim"]:
    """Encode positions by sines and cosines, interleaved as in Vaswani et al. (2017) or in two halves."""
    p = torch.arange(start, start + length, dtype=torch.float64, device=device)
    return sine_rows(p, dim, base, layout).to(dtype)


def sine_rows(p: Tensor, dim: int, base: float, layout: str) -> Tensor:
    """The row of sines and cosines of each place, in float64."""
    angle = p[..., None].double() * rotary_frequencies.fn(dim, base, torch.float64, p.device)
    return rearrange([angle.sin(), angle.cos()], f"two ... pairs -> ... {_ORDERS[layout]}")


@sinusoidal_positions.def_cell
def _sinusoidal_positions_cell(index: tuple[int, ...], dim: int, base: float, start: int, layout: str) -> str:
    pair, second = divmod(index[1], 2) if layout == "adjacent" else divmod(index[1], dim // 2)[::-1]
    wave = "cos" if second else "sin"
    return f"{wave}({start + index[0]}·{number(base, EXACT)}^({number(-2 * pair)}/{dim}))"


@sinusoidal_positions.def_check
def _sinusoidal_positions_check(
    length: object, dim: object, base: object, start: object, layout: str, dtype: torch.dtype
) -> None:
    sinusoidal_positions.require(layout in _ORDERS, "layout", repr(layout), "adjacent or halves")
    whole(sinusoidal_positions.require, 0, length=length, start=start)
    even(sinusoidal_positions.require, dim=dim)
    positive(sinusoidal_positions.require, base=base)
    float_type(sinusoidal_positions.require, dtype)


@equation(
    r"M_k = \bigoplus_i \begin{pmatrix} \cos k\omega_i & -\sin k\omega_i \\ \sin k\omega_i & \cos k\omega_i"
    r" \end{pmatrix}, \quad P_{p+k} = P_p M_k, \quad \omega_i = b^{-2i/d}",
    meaning="One fixed matrix moves any sinusoidal encoding on by the same number of positions.",
    intuition="Turning every hand of a clock on by three hours, whatever the time was.",
    symbols={
        "offset": "number of positions k to move on",
        "dim": "width d of an encoding, even",
        "base": "base b of the encoding",
        "dtype": "number type of the result",
        "device": "where the result lives",
        "M": "matrix to multiply encodings with, from the right",
    },
    flops=lambda dim: 3 * dim * dim + 3 * (dim + 1) * (dim // 2),
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


@shift_matrix.def_check
def _shift_matrix_check(offset: object, dim: object, base: object, dtype: torch.dtype) -> None:
    whole(shift_matrix.require, -(2**53), offset=offset)
    even(shift_matrix.require, dim=dim)
    positive(shift_matrix.require, base=base)
    float_type(shift_matrix.require, dtype)


@equation(
    r"p_i = P_{s + i}",
    meaning="Each position has a row of its own in a table that is learned like any weight.",
    intuition="Numbered seats, each with its own cushion; there are no seats beyond the last.",
    symbols={
        "P": "table, one row per position",
        "length": "number of positions to read",
        "start": "first position s",
        "p": "one row per position read",
    },
    flops=lambda: 0,
)
def learned_positions(P: Float[Tensor, "places dim"], length: int, start: int = 0) -> Float[Tensor, "length dim"]:
    """Read the learned vectors of consecutive positions (Gehring et al., 2017)."""
    return P[start : start + length]


@learned_positions.def_gradient(r"\bar P_{s + i} = \bar p_i")
def _learned_positions_gradient(p_bar: Tensor, P: Tensor, start: int) -> Tensor:
    return functional.pad(p_bar, (0, 0, start, P.shape[0] - start - p_bar.shape[0]))


@learned_positions.def_check
def _learned_positions_check(P: Tensor, length: int, start: int) -> None:
    whole(learned_positions.require, 0, length=length, start=start)
    fits = start + length <= P.shape[0]
    wanted = f"at most {P.shape[0] - start} from start = {start}: the table P has {P.shape[0]} positions"
    learned_positions.require(fits, "length", length, wanted)


@equation(
    r"m_h = 2^{-8 k_h / n}, \quad n = 2^{\lfloor \log_2 H \rfloor}, \quad"
    r" k = 1, 2, \dots, n, \tfrac12, \tfrac32, \dots",
    meaning="Each head forgets with distance at its own rate, the rates in geometric sequence.",
    intuition="Spectacles of different strength: one head reads what is near, another sees far.",
    symbols={
        "heads": "number of heads H; those beyond a power of two take slopes halfway between",
        "dtype": "number type of the result",
        "device": "where the result lives",
        "m": "one slope per head",
    },
    flops=lambda heads: 3 * heads,
)
def alibi_slopes(
    heads: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> Float[Tensor, " heads"]:
    """Give each head its slope (ALiBi: Press et al., 2022)."""
    n = 2 ** math.floor(math.log2(heads))
    k = torch.cat([torch.arange(1, n + 1, device=device), torch.arange(0.5, heads - n + 0.5, device=device)])
    return (2.0 ** (-8 * k.double() / n)).to(dtype)


@alibi_slopes.def_cell
def _alibi_slopes_cell(index: tuple[int, ...], heads: int) -> str:
    n = 2 ** math.floor(math.log2(heads))
    k = index[0] + 1 if index[0] < n else index[0] - n + 0.5
    return f"2^(−8·{number(k)}/{n})"


@alibi_slopes.def_check
def _alibi_slopes_check(heads: object, dtype: torch.dtype) -> None:
    whole(alibi_slopes.require, 1, heads=heads)
    float_type(alibi_slopes.require, dtype)


@equation(
    r"B_{hij} = -m_h \left| r_{ij} \right|, \quad r_{ij} = j - (\text{keys} - \text{queries} + i)",
    meaning="A score is lowered in proportion to the distance, by each head at its own rate.",
    intuition="A voice fades with every step away from you; some ears hear further than others.",
    symbols={
        "heads": "number of heads",
        "queries": "number of queries; they end where the keys end, so a cached step has one",
        "keys": "number of keys, those read from a cache included",
        "dtype": "number type of the result",
        "device": "where the result lives",
        "B": "bias to add to the scores",
    },
    flops=lambda heads, queries, keys: heads * queries * keys + 3 * heads,
)
def alibi_bias(
    heads: int,
    queries: int,
    keys: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "heads queries keys"]:
    """Bias scores against distance; query i stands at position keys − queries + i (ALiBi: Press et al., 2022)."""
    return fading(relative_positions.fn(queries, keys, device), heads).to(dtype)


def fading(r: Tensor, heads: int) -> Tensor:
    """What each head takes off for these distances [..., queries, keys], in float64."""
    m = alibi_slopes.fn(heads, torch.float64, r.device)
    return m[:, None, None] * -r.abs().unsqueeze(-3)


@alibi_bias.def_cell
def _alibi_bias_cell(index: tuple[int, ...], heads: int, queries: int, keys: int) -> str:
    head, i, j = index
    return f"−{number(alibi_slopes.fn(heads)[head], EXACT)}·abs({j} − ({keys} − {queries} + {i}))"


@alibi_bias.def_check
def _alibi_bias_check(heads: object, queries: object, keys: object, dtype: torch.dtype) -> None:
    whole(alibi_bias.require, 1, heads=heads)
    whole(alibi_bias.require, 0, queries=queries, keys=keys)
    float_type(alibi_bias.require, dtype)


@equation(
    r"b(r) = [r > 0]\, n + \begin{cases} |r| & |r| < e \\"
    r" \min\left(n - 1,\; e + \left\lfloor (n - e) \frac{\ln(|r| / e)}{\ln(D / e)} \right\rfloor\right) &"
    r" \text{otherwise} \end{cases}, \quad e = \lfloor n / 2 \rfloor",
    meaning="Near distances have a bucket each; farther ones share buckets that widen like a logarithm.",
    intuition="Today, yesterday, last week, last year: memory files what is near day by day, the rest in bulk.",
    symbols={
        "relative": "position of the key less that of the query, r",
        "bidirectional": "whether keys ahead have buckets of their own; otherwise they count as distance zero",
        "buckets": "number of buckets in all: 2n if bidirectional, else n",
        "max_distance": "distance D from which all share the last bucket",
        "b": "bucket of each distance",
    },
    flops=lambda shape: 4 * shape,
)
def relative_position_bucket(
    relative: Int[Tensor, "*shape"], bidirectional: bool = True, buckets: int = 32, max_distance: int = 128
) -> Int[Tensor, "*shape"]:
    """Sort relative positions into buckets (T5: Raffel et al., 2020)."""
    r = relative.long()
    n = buckets // 2 if bidirectional else buckets
    e = n // 2
    distance = r.abs() if bidirectional else (-r).clamp_min(0)
    far = (distance.clamp_min(e).float() / e).log() / math.log(max_distance / e) * (n - e)
    bucket = torch.where(distance < e, distance, (e + far.long()).clamp_max(n - 1))
    return bucket + n * (r > 0) if bidirectional else bucket


@relative_position_bucket.def_check
def _relative_position_bucket_check(bidirectional: bool, buckets: int, max_distance: int) -> None:
    whole(relative_position_bucket.require, 4 if bidirectional else 2, buckets=buckets)
    exact = buckets // 4 if bidirectional else buckets // 2
    whole(relative_position_bucket.require, exact + 1, max_distance=max_distance)


@equation(
    r"B_{hij} = T_{b(r_{ij}),\, h}, \quad r_{ij} = j - (\text{keys} - \text{queries} + i)",
    meaning="Each head learns one number per bucket of distances and adds it to the scores.",
    intuition="A price list for delivery by distance, one list for each head.",
    symbols={
        "table": "learned biases T, one row per bucket",
        "queries": "number of queries; they end where the keys end, so a cached step has one",
        "keys": "number of keys, those read from a cache included",
        "bidirectional": "whether keys ahead have buckets of their own",
        "max_distance": "distance from which all share the last bucket",
        "B": "bias to add to the scores",
    },
    flops=lambda queries, keys: 4 * queries * keys,
)
def relative_position_bias(
    table: Float[Tensor, "buckets heads"],
    queries: int,
    keys: int,
    bidirectional: bool = True,
    max_distance: int = 128,
) -> Float[Tensor, "heads queries keys"]:
    """Bias scores by learned numbers; query i stands at position keys − queries + i (T5: Raffel et al., 2020)."""
    return priced(table, relative_positions.fn(queries, keys, table.device), bidirectional, max_distance)


def priced(table: Tensor, r: Tensor, bidirectional: bool, max_distance: int) -> Tensor:
    """What each head adds for these distances [..., queries, keys]."""
    b = relative_position_bucket.fn(r, bidirectional, table.shape[0], max_distance)
    return rearrange(embed.fn(table, b), "... queries keys heads -> ... heads queries keys")


@relative_position_bias.def_gradient(r"\bar T_{c,h} = \sum_{b(r_{ij}) = c} \bar B_{hij}")
def _relative_position_bias_gradient(
    B_bar: Tensor, table: Tensor, queries: int, keys: int, bidirectional: bool, max_distance: int
) -> Tensor:
    r = relative_positions.fn(queries, keys, table.device)
    return collected(B_bar, table, r, bidirectional, max_distance)


def collected(B_bar: Tensor, table: Tensor, r: Tensor, bidirectional: bool, max_distance: int) -> Tensor:
    """What every distance of a bucket sends back to its row of the table."""
    b = relative_position_bucket.fn(r, bidirectional, table.shape[0], max_distance)
    return scatter_rows(rearrange(B_bar, "... heads queries keys -> ... queries keys heads"), b, table)


@relative_position_bias.def_check
def _relative_position_bias_check(
    table: Tensor, queries: int, keys: int, bidirectional: bool, max_distance: int
) -> None:
    require = relative_position_bias.require
    whole(require, 0, queries=queries, keys=keys)
    sides = 2 if bidirectional else 1
    require(len(table) >= 2 * sides, "table", f"of shape {list(table.shape)}", f"at least {2 * sides} buckets")
    whole(require, len(table) // sides // 2 + 1, max_distance=max_distance)
