"""Sparse attention patterns: dilated windows, blocks with summaries, and how many pairs a mask leaves."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.masks import (
    MASK_SYMBOLS,
    additive_mask,
    aligned_positions,
    blocks,
    position_mask,
    relative_positions,
)
from glassformer.equations.ranges import at_least, whole


@equation(
    r"M_{ij} = \begin{cases} 0 & p_i - j \in \{0, d, 2d, \dots, (w - 1) d\} \\ -\infty & \text{otherwise}"
    r" \end{cases}, \quad p_i = \text{keys} - \text{queries} + i",
    meaning="A window with gaps: as many keys as a plain one, reaching further back.",
    intuition="Leafing back through a diary a week at a time.",
    symbols={
        **MASK_SYMBOLS,
        "window=w": "number of keys w that a query attends to, itself included",
        "dilation=d": "steps d from one of them to the next",
    },
    flops=lambda: 0,
    where={"queries keys": at_least(0), "window dilation": whole, "blocked dtype": blocks},
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
    p, j = aligned_positions(queries, keys, device)
    return additive_mask.fn(position_mask.fn(relative_positions.fn(p, j), j, window, dilation), blocked, dtype)


@equation(
    r"M_{ij} = \begin{cases} 0 & j \le p_i \text{ and } (\lfloor j / b \rfloor = \lfloor p_i / b \rfloor"
    r" \text{ or } j \bmod b = b - 1) \\ -\infty & \text{otherwise} \end{cases}, \quad"
    r" p_i = \text{keys} - \text{queries} + i",
    meaning="A token attends to its own block up to itself, and to the last token of every earlier block.",
    intuition="Reading this chapter word by word, and of the chapters before only their closing lines.",
    symbols={**MASK_SYMBOLS, "block=b": "number of positions b in a block"},
    flops=lambda: 0,
    where={"queries keys": at_least(0), "block": whole, "blocked dtype": blocks},
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
    and on from there. With blocks as long as the square root of the sequence, n queries attend to about n^1.5 keys.
    """
    p, j = aligned_positions(queries, keys, device)
    return additive_mask.fn(position_mask.fn(relative_positions.fn(p, j), j, block=block), blocked, dtype)


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


@equation(
    r"M_{ij} = \begin{cases} 0 & 0 \le p_i - j < w \\ -\infty & \text{otherwise} \end{cases}, \quad"
    r" p_i = \text{keys} - \text{queries} + i",
    meaning="A token attends to its nearest neighbors: visible pairs grow with the length, not with its square.",
    intuition="Walking with a lantern: it lights a few steps, however long the road.",
    symbols={
        **MASK_SYMBOLS,
        "window=w": "number of keys w that a query attends to, itself included",
        "causal=": "whether the window lies behind the query; otherwise it reaches as far to either side, |p − j| < w",
    },
    flops=lambda: 0,
    where={"queries keys": at_least(0), "window": whole, "blocked dtype": blocks},
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
    p, j = aligned_positions(queries, keys, device)
    r = relative_positions.fn(p, j)
    return additive_mask.fn(position_mask.fn(r, j, window) if causal else r.abs() < window, blocked, dtype)
