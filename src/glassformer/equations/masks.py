"""Attention masks: which keys each query may attend to, from the positions of both.

A position is a token's index in its own sequence; a negative one is padding or an empty cache slot. Where only lengths
are given, queries end where the keys end: query i of n stands at position keys − n + i, as in a cached decoding step.
"""

import math

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, at_least, float_dtype, optional, whole

BLOCKED = -1e9  # a mask entry this low or lower blocks a pair for good; minus infinity is the usual one
MASK_SYMBOLS = {
    r"queries=\text{queries}": "number of queries; they end where the keys end, so a cached step has one",
    r"keys=\text{keys}": "number of keys, including those read from a cache",
    r"blocked=-\infty": "entry for a masked pair: minus infinity, or a large negative number where that could give NaN",
    "dtype=": "dtype",
    "device=": "device",
    "M": "mask to add to the scores",
}


def aligned_positions(
    queries: int, keys: int, device: torch.device | str | None = None
) -> tuple[Int[Tensor, " queries"], Int[Tensor, " keys"]]:
    """Positions of queries and keys that end together: the last query stands at the last key."""
    return torch.arange(keys - queries, keys, device=device), torch.arange(keys, device=device)


def blocks(require: Require, /, blocked: float, dtype: torch.dtype) -> None:
    """A condition: softmax gives a masked pair probability zero, and the dtype can hold its entry."""
    float_dtype(require, dtype=dtype)
    require(blocked < 0, "blocked", blocked, "minus infinity or a large negative number")
    lowest = torch.finfo(dtype).min
    holds = blocked == -math.inf or blocked >= lowest
    require(holds, "blocked", blocked, f"minus infinity or at least {lowest:g}, the lowest number of {dtype}")


@equation(
    r"r_{ij} = j - p_i",
    meaning="How far each key lies ahead of each query.",
    intuition="Milestones on a road: the difference of two numbers says how far apart they are.",
    symbols={"p": "positions of the queries", "j": "positions of the keys", "r": "key position minus query position"},
)
def relative_positions(
    p: Int[Tensor, "*#batch queries"], j: Int[Tensor, "*#batch keys"]
) -> Int[Tensor, "*batch queries keys"]:
    """Relative position of every query and key of the same sequence."""
    return j[..., None, :] - p[..., :, None]


@relative_positions.def_cell
def _relative_positions_cell(index: tuple[int, ...], p: Tensor, j: Tensor) -> str:
    *batch, query, key = index
    lead = torch.broadcast_shapes(p.shape[:-1], j.shape[:-1])
    return f"{int(j.expand(*lead, -1)[(*batch, key)])} − {int(p.expand(*lead, -1)[(*batch, query)])}"


@equation(
    r"V_{ij} = [\,j \ge 0\,] \wedge [\,r_{ij} \le 0\,] \wedge [\,j \text{ is in the pattern}\,]",
    meaning="A query attends to the keys of its pattern: none ahead of it, none that is padding.",
    intuition="Blinkers, cut for a reader who may have started anywhere on the page.",
    symbols={
        "r": "key position minus query position",
        "j": "positions of the keys, negative for padding and empty slots",
        "window=": "number of keys that a query attends to, itself included; all earlier ones if not given",
        "dilation=": "steps from one key of the window to the next",
        "block=": "positions in a block, of which later blocks attend to the last only",
        "V": "true where a query attends to a key",
    },
    where={"window block": optional(whole), "dilation": whole},
)
def position_mask(
    r: Int[Tensor, "*batch queries keys"],
    j: Int[Tensor, "*#batch keys"],
    window: int | None = None,
    dilation: int = 1,
    block: int | None = None,
) -> Bool[Tensor, "*batch queries keys"]:
    """Boolean causal mask from positions: full, sliding window, dilated or block-sparse."""
    visible = r <= 0 if window is None else in_window(r, window, dilation)
    j = j[..., None, :]
    if block is not None:
        visible = visible & ((j // block == (j - r) // block) | (j % block == block - 1))
    return visible & (j >= 0)


def in_window(r: Tensor, window: int, dilation: int = 1) -> Tensor:
    """Which relative positions lie in a window behind the query, with every `dilation`-th position in it."""
    near = (r <= 0) & (-r < window * dilation)
    return near if dilation == 1 else near & (r % dilation == 0)


@equation(
    r"W_{ij} = V_{ij} \wedge A_{ij}",
    meaning="Where a text branches, a query attends only to the keys on its own branch.",
    intuition="A family tree: one looks up to parents and grandparents, not across to cousins.",
    symbols={
        "V": "true where a query may attend to a key",
        "A": "true where a key is an ancestor of a query, or the query itself",
        "W": "true where both hold",
    },
)
def tree_mask(
    V: Bool[Tensor, "*#batch queries keys"], A: Bool[Tensor, "*#batch queries keys"]
) -> Bool[Tensor, "*batch queries keys"]:
    """Tree attention: restrict each query to its ancestors (SpecInfer: Miao et al., 2023)."""
    return V & A


@equation(
    r"M = \begin{cases} 0 & \text{visible} \\ -\infty & \text{otherwise} \end{cases}",
    meaning="A boolean mask becomes a number to add to the scores: zero, or so low that softmax gives zero.",
    intuition="Blinkers: what may be seen is left as it is, the rest goes dark.",
    symbols={
        r"visible=\text{visible}": "true where a query attends to a key",
        **{name: MASK_SYMBOLS[name] for name in (r"blocked=-\infty", "dtype=", "M")},
    },
    flops=lambda: 0,
    where={"blocked dtype": blocks},
)
def additive_mask(
    visible: Bool[Tensor, "*shape"], blocked: float = -math.inf, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape"]:
    """Turn true and false into zero and minus infinity."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, blocked)


@equation(
    r"M_{ij} = \begin{cases} 0 & j \le p_i \\ -\infty & j > p_i \end{cases}, \quad"
    r" p_i = \text{keys} - \text{queries} + i",
    meaning="A token attends to itself and to earlier tokens, never to later ones.",
    intuition="Reading with a card over the rest of the page.",
    symbols={
        **MASK_SYMBOLS,
        r"keys=\text{keys}": "number of keys, including those read from a cache; as many as queries if not given",
    },
    flops=lambda: 0,
    where={"queries": at_least(0), "keys": optional(at_least(0)), "blocked dtype": blocks},
)
def causal_mask(
    queries: int,
    keys: int | None = None,
    blocked: float = -math.inf,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "queries keys"]:
    """Hide the future from every query (Vaswani et al., 2017)."""
    p, j = aligned_positions(queries, queries if keys is None else keys, device)
    return additive_mask.fn(position_mask.fn(relative_positions.fn(p, j), j), blocked, dtype)


@equation(
    r"M_{bj} = \begin{cases} 0 & \text{key } j \text{ of sequence } b \text{ is a real token} \\"
    r" -\infty & \text{it is padding} \end{cases}",
    meaning="No query attends to padding, which only makes sequences equally long.",
    intuition="Empty chairs round a table: no one turns to them.",
    symbols={
        r"attention_mask=\text{is a real token}": "true for a real token, false for padding",
        **{name: MASK_SYMBOLS[name] for name in (r"blocked=-\infty", "dtype=")},
        "M": "mask to add to the scores of all heads and queries",
    },
    flops=lambda: 0,
    where={"blocked dtype": blocks},
)
def padding_mask(
    attention_mask: Bool[Tensor, "batch keys"], blocked: float = -math.inf, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "batch 1 1 keys"]:
    """Hide padding from every head and every query."""
    return additive_mask.fn(rearrange(attention_mask, "batch keys -> batch 1 1 keys"), blocked, dtype)


@equation(
    r"M = \min(A, B)",
    meaning="A pair is visible only if both masks show it.",
    intuition="Two pairs of tinted glasses, one over the other: only light that passes both gets through.",
    symbols={"A": "one mask", "B": "another; the two broadcast", "M": "both at once"},
    flops=lambda shape: shape,
)
def combine_masks(A: Float[Tensor, "*#shape"], B: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """Apply two masks together; unlike a sum, the smaller of two large numbers cannot overflow."""
    return torch.minimum(A, B)


@combine_masks.def_gradient(
    r"\bar A = \bar M \odot ([A < B] + \tfrac12 [A = B]), \quad \bar B = \bar M \odot ([B < A] + \tfrac12 [A = B])"
)
def _combine_masks_gradient(M_bar: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    A_bar = M_bar * torch.where(A == B, 0.5, (A < B).to(M_bar.dtype))
    return A_bar, M_bar - A_bar


@combine_masks.def_cell
def _combine_masks_cell(index: tuple[int, ...], A: Tensor, B: Tensor) -> str:
    A, B = torch.broadcast_tensors(A, B)
    return f"min({number(A[index])}, {number(B[index])})"
