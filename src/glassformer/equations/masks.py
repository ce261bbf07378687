"""Who may look at whom: additive masks, zero where a query may see a key and minus infinity where it may not.

Queries always end where the keys end: query i of n stands at position keys − n + i. With more queries
than keys the first ones stand before every key.
"""

import math

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, float_type, whole
from glassformer.equations.sequences import relative_positions

_QUERIES = "number of queries; they end where the keys end, so a cached step has one"
_KEYS = "number of keys, those read from a cache included"
_SETTINGS = {
    "blocked": "what blocks a pair: minus infinity, or a large negative number where that could give NaN",
    "dtype": "number type of the result",
    "device": "where the result lives",
}


def _require_mask(require: Require, blocked: float, dtype: torch.dtype, **sizes: object) -> None:
    whole(require, 0, **sizes)
    float_type(require, dtype)
    require(blocked < 0, "blocked", blocked, "minus infinity or a large negative number")
    lowest = torch.finfo(dtype).min
    holds = blocked == -math.inf or blocked >= lowest
    require(holds, "blocked", blocked, f"minus infinity or at least {lowest:g}, the lowest number of {dtype}")


@equation(
    r"M = \begin{cases} 0 & \text{visible} \\ -\infty & \text{otherwise} \end{cases}",
    meaning="Permission becomes a number to add to the scores: zero, or so low that softmax leaves no share.",
    intuition="Blinkers: what may be seen is left as it is, the rest goes dark.",
    symbols={
        "visible": "true where a query may see a key",
        "blocked": _SETTINGS["blocked"],
        "dtype": _SETTINGS["dtype"],
        "M": "mask to add to the scores",
    },
    flops=lambda: 0,
)
def additive_mask(
    visible: Bool[Tensor, "*shape"], blocked: float = -math.inf, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape"]:
    """Turn true and false into zero and minus infinity."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, blocked)


@additive_mask.def_check
def _additive_mask_check(blocked: float, dtype: torch.dtype) -> None:
    _require_mask(additive_mask.require, blocked, dtype)


@equation(
    r"M_{ij} = \begin{cases} 0 & j \le p_i \\ -\infty & j > p_i \end{cases}, \quad"
    r" p_i = \text{keys} - \text{queries} + i",
    meaning="A token sees itself and what came before, never what comes after.",
    intuition="Reading with a card over the rest of the page.",
    symbols={
        "queries": _QUERIES,
        "keys": "number of keys, those read from a cache included; as many as queries unless given",
        **_SETTINGS,
        "M": "mask to add to the scores",
    },
    flops=lambda: 0,
)
def causal_mask(
    queries: int,
    keys: int | None = None,
    blocked: float = -math.inf,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "queries keys"]:
    """Hide the future from every query (Vaswani et al., 2017)."""
    r = relative_positions.fn(queries, queries if keys is None else keys, device)
    return additive_mask.fn(r <= 0, blocked, dtype)


@causal_mask.def_check
def _causal_mask_check(queries: object, keys: object, blocked: float, dtype: torch.dtype) -> None:
    _require_mask(causal_mask.require, blocked, dtype, queries=queries, keys=queries if keys is None else keys)


@equation(
    r"M_{bj} = \begin{cases} 0 & \text{key } j \text{ of sequence } b \text{ is a real token} \\"
    r" -\infty & \text{it is padding} \end{cases}",
    meaning="Filler that makes sequences equally long is seen by nobody.",
    intuition="Empty chairs round a table: no one turns to them.",
    symbols={
        "keep": "true for a real token, false for padding",
        "blocked": _SETTINGS["blocked"],
        "dtype": _SETTINGS["dtype"],
        "M": "mask to add to the scores of all heads and queries",
    },
    flops=lambda: 0,
)
def padding_mask(
    keep: Bool[Tensor, "batch keys"], blocked: float = -math.inf, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "batch 1 1 keys"]:
    """Hide padding from every head and every query."""
    return additive_mask.fn(rearrange(keep, "batch keys -> batch 1 1 keys"), blocked, dtype)


@padding_mask.def_check
def _padding_mask_check(blocked: float, dtype: torch.dtype) -> None:
    _require_mask(padding_mask.require, blocked, dtype)


@equation(
    r"M_{ij} = \begin{cases} 0 & 0 \le p_i - j < w \\ -\infty & \text{otherwise} \end{cases}, \quad"
    r" p_i = \text{keys} - \text{queries} + i",
    meaning="A token sees only its nearest neighbors: the visible pairs grow with the length, not with its square.",
    intuition="Walking with a lantern: it lights a few steps, however long the road.",
    symbols={
        "queries": _QUERIES,
        "keys": _KEYS,
        "window": "number of keys w that a query sees, itself included",
        "causal": "whether the window lies behind the query; otherwise it reaches as far to either side, |p − j| < w",
        **_SETTINGS,
        "M": "mask to add to the scores",
    },
    flops=lambda: 0,
)
def sliding_window_mask(
    queries: int,
    keys: int,
    window: int,
    causal: bool = True,
    blocked: float = -math.inf,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "queries keys"]:
    """Show each query a window of keys (Beltagy et al., 2020)."""
    r = relative_positions.fn(queries, keys, device)
    return additive_mask.fn(in_window(r, window) if causal else r.abs() < window, blocked, dtype)


def in_window(r: Tensor, window: int, dilation: int = 1) -> Tensor:
    """Which distances lie in a window behind the query, with every `dilation`-th place in it."""
    near = (r <= 0) & (-r < window * dilation)
    return near if dilation == 1 else near & (r % dilation == 0)


@sliding_window_mask.def_check
def _sliding_window_mask_check(
    queries: object, keys: object, window: object, blocked: float, dtype: torch.dtype
) -> None:
    _require_mask(sliding_window_mask.require, blocked, dtype, queries=queries, keys=keys)
    whole(sliding_window_mask.require, 1, window=window)


@equation(
    r"M_{ij} = \begin{cases} 0 & p_i - j \in \{0, d, 2d, \dots, (w - 1) d\} \\ -\infty & \text{otherwise}"
    r" \end{cases}, \quad p_i = \text{keys} - \text{queries} + i",
    meaning="A window with gaps: as many keys as a plain one, reaching further back.",
    intuition="Leafing back through a diary a week at a time.",
    symbols={
        "queries": _QUERIES,
        "keys": _KEYS,
        "window": "number of keys w that a query sees, itself included",
        "dilation": "steps d from one of them to the next",
        **_SETTINGS,
        "M": "mask to add to the scores",
    },
    flops=lambda: 0,
)
def dilated_mask(
    queries: int,
    keys: int,
    window: int,
    dilation: int,
    blocked: float = -math.inf,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "queries keys"]:
    """Show each query a window of keys with gaps between them (Beltagy et al., 2020)."""
    r = relative_positions.fn(queries, keys, device)
    return additive_mask.fn(in_window(r, window, dilation), blocked, dtype)


@dilated_mask.def_check
def _dilated_mask_check(
    queries: object, keys: object, window: object, dilation: object, blocked: float, dtype: torch.dtype
) -> None:
    _require_mask(dilated_mask.require, blocked, dtype, queries=queries, keys=keys)
    whole(dilated_mask.require, 1, window=window, dilation=dilation)


@equation(
    r"M_{ij} = \begin{cases} 0 & j \le p_i \text{ and } (\lfloor j / b \rfloor = \lfloor p_i / b \rfloor"
    r" \text{ or } j \bmod b = b - 1) \\ -\infty & \text{otherwise} \end{cases}, \quad"
    r" p_i = \text{keys} - \text{queries} + i",
    meaning="A token sees its own block up to itself, and the last token of every earlier block as its summary.",
    intuition="Reading this chapter word by word, and of the chapters before only their closing lines.",
    symbols={
        "queries": _QUERIES,
        "keys": _KEYS,
        "block": "number of positions b in a block",
        **_SETTINGS,
        "M": "mask to add to the scores",
    },
    flops=lambda: 0,
)
def block_sparse_mask(
    queries: int,
    keys: int,
    block: int,
    blocked: float = -math.inf,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "queries keys"]:
    """Show each query its block and one summary per earlier block: the fixed pattern of Child et al. (2019).

    Two layers carry anything from any earlier token to any later one: into the summary of its block,
    and on from there. With blocks as long as the square root of the sequence, n queries see about n^1.5 keys.
    """
    r = relative_positions.fn(queries, keys, device)
    return additive_mask.fn(in_blocks(r, torch.arange(keys, device=device), block), blocked, dtype)


def in_blocks(r: Tensor, j: Tensor, block: int) -> Tensor:
    """Which keys at places j lie in the query's block so far, or close an earlier one."""
    same, summary = j // block == (j - r) // block, j % block == block - 1
    return (r <= 0) & (same | summary)


@block_sparse_mask.def_check
def _block_sparse_mask_check(queries: object, keys: object, block: object, blocked: float, dtype: torch.dtype) -> None:
    _require_mask(block_sparse_mask.require, blocked, dtype, queries=queries, keys=keys)
    whole(block_sparse_mask.require, 1, block=block)


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


@equation(
    r"n = \sum_{ij} [M_{ij} = 0]",
    meaning="How many pairs of query and key a mask leaves, and so how much work attention has left.",
    intuition="Counting the lit windows of a house at night.",
    symbols={"M": "mask", "n": "number of visible pairs"},
    flops=lambda: 0,
)
def visible_pairs(M: Float[Tensor, "*shape"]) -> Int[Tensor, ""]:
    """Count the pairs that a mask leaves visible."""
    return (M == 0).sum()
