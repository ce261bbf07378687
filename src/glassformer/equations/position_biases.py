"""Position biases added to attention scores: ALiBi, and the learned buckets of T5."""

import math

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.embedding import embed, scatter_add
from glassformer.equations.ranges import at_least, float_dtype, whole

EXACT = 9  # digits of a slope, where four would change a bias over many positions visibly


@equation(
    r"m_h = 2^{-8 k_h / n}, \quad n = 2^{\lfloor \log_2 H \rfloor}, \quad"
    r" k = 1, 2, \dots, n, \tfrac12, \tfrac32, \dots",
    meaning="Each head penalizes distance at its own rate, the rates in geometric sequence.",
    intuition="Spectacles of different strength: one head reads what is near, another sees far.",
    symbols={
        "heads=H": "number of heads H; those beyond a power of two take slopes halfway between",
        "dtype=": "dtype",
        "device=": "device",
        "m": "one slope per head",
    },
    flops=lambda heads: 3 * heads,
    where={"heads": whole, "dtype": float_dtype},
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


@equation(
    r"B_{hij} = -m_h \left| r_{ij} \right|",
    meaning="A score is lowered in proportion to the distance, by each head at its own rate.",
    intuition="A voice fades with every step away from you; some ears hear further than others.",
    symbols={
        "r": "key position minus query position",
        "heads=": "number of heads",
        "dtype=": "dtype",
        "B": "bias to add to the scores",
    },
    flops=lambda heads, batch, queries, keys: batch * heads * queries * keys + 3 * heads,
    where={"heads": whole, "dtype": float_dtype},
)
def alibi_bias(
    r: Int[Tensor, "*batch queries keys"], heads: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*batch heads queries keys"]:
    """Bias attention scores against distance (ALiBi: Press et al., 2022)."""
    m = alibi_slopes.fn(heads, torch.float64, r.device)
    return (m[:, None, None] * -r.abs().unsqueeze(-3)).to(dtype)


@alibi_bias.def_cell
def _alibi_bias_cell(index: tuple[int, ...], r: Tensor, heads: int) -> str:
    *batch, head, i, j = index
    return f"−{number(alibi_slopes.fn(heads)[head], EXACT)}·abs({number(r[(*batch, i, j)])})"


@equation(
    r"b(r) = [r > 0]\, n + \begin{cases} |r| & |r| < e \\"
    r" \min\left(n - 1,\; e + \left\lfloor (n - e) \frac{\ln(|r| / e)}{\ln(D / e)} \right\rfloor\right) &"
    r" \text{otherwise} \end{cases}, \quad e = \lfloor n / 2 \rfloor",
    meaning="Near distances have a bucket each; farther ones share buckets that widen like a logarithm.",
    intuition="Today, yesterday, last week, last year: memory files what is near day by day, the rest in bulk.",
    symbols={
        "relative=r": "key position minus query position, r",
        "bidirectional=": "whether keys ahead have separate buckets; otherwise they count as distance zero",
        "buckets=": "number of buckets in all: 2n if bidirectional, else n",
        "max_distance=D": "distance D from which all share the last bucket",
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
    at_least(4 if bidirectional else 2)(relative_position_bucket.require, buckets=buckets)
    exact = buckets // 4 if bidirectional else buckets // 2
    at_least(exact + 1)(relative_position_bucket.require, max_distance=max_distance)


@equation(
    r"B_{hij} = T_{b(r_{ij}),\, h}",
    meaning="Each head learns one number per bucket of distances and adds it to the scores.",
    intuition="A price list for delivery by distance, one list for each head.",
    symbols={
        "table=T": "learned biases T, one row per bucket",
        "r": "key position minus query position",
        "bidirectional=": "whether keys ahead have separate buckets",
        "max_distance=": "distance from which all share the last bucket",
        "B": "bias to add to the scores",
    },
    flops=lambda batch, queries, keys: 4 * batch * queries * keys,
)
def relative_position_bias(
    table: Float[Tensor, "buckets heads"],
    r: Int[Tensor, "*batch queries keys"],
    bidirectional: bool = True,
    max_distance: int = 128,
) -> Float[Tensor, "*batch heads queries keys"]:
    """Bias attention scores by learned numbers for distances (T5: Raffel et al., 2020)."""
    b = relative_position_bucket.fn(r, bidirectional, table.shape[0], max_distance)
    return rearrange(embed.fn(table, b), "... queries keys heads -> ... heads queries keys")


@relative_position_bias.def_gradient(r"\bar T_{c,h} = \sum_{b(r_{ij}) = c} \bar B_{hij}")
def _relative_position_bias_gradient(
    B_bar: Tensor, table: Tensor, r: Tensor, bidirectional: bool, max_distance: int
) -> Tensor:
    b = relative_position_bucket.fn(r, bidirectional, table.shape[0], max_distance)
    return scatter_add(rearrange(B_bar, "... heads queries keys -> ... queries keys heads"), b, table)


@relative_position_bias.def_check
def _relative_position_bias_check(table: Tensor, bidirectional: bool, max_distance: int) -> None:
    sides = 2 if bidirectional else 1
    enough = len(table) >= 2 * sides
    relative_position_bias.require(enough, "table", f"of shape {list(table.shape)}", f"at least {2 * sides} buckets")
    at_least(len(table) // sides // 2 + 1)(relative_position_bias.require, max_distance=max_distance)
