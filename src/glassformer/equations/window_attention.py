"""Sliding-window attention, whose work grows with the length of a sequence and not with its square."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.equation import equation
from glassformer.equations.attention import (
    apply_mask,
    attention_scores,
    four_axes,
    require_attention,
    sdpa,
    soft_cap,
    weighted_sum,
)
from glassformer.equations.heads import repeat_kv
from glassformer.equations.masks import in_window
from glassformer.equations.ranges import optional, positive, same_dtype, whole
from glassformer.equations.softmax import softmax
from glassformer.equations.sparse_masks import sliding_window_mask

SHORTEST_BLOCK = 128  # queries computed together; shorter blocks leave a kernel too little to do


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V, \quad"
    r" M_{ij} = \begin{cases} 0 & p_i - w < j \le p_i \\ -\infty & \text{otherwise} \end{cases}",
    meaning="Each query attends to the last few keys only: the work grows with the length, not with its square.",
    intuition="Reading through a slot in a card that slides along the line.",
    symbols={
        "q": "queries",
        "k": "keys",
        "v": "values",
        "w": "window: number of keys that a query attends to, itself included",
        "scale": "factor; one over the root of d_k if not given",
        "softcap": "soft cap of the scores",
        "o": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
    where={"q k v": same_dtype, "w": whole, "softcap": optional(positive)},
)
def window_attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*kv_batch keys head_dim"],
    v: Float[Tensor, "*kv_batch keys value_dim"],
    w: int,
    scale: float | None = None,
    softcap: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Causal attention through a sliding window (Beltagy et al., 2020)."""
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv(k, q.shape[-3]), repeat_kv(v, q.shape[-3])
    s = attention_scores(q, k, scale)
    if softcap is not None:
        s = soft_cap(s, softcap)
    mask = sliding_window_mask(q.shape[-2], k.shape[-2], w, dtype=q.dtype, device=q.device)
    return weighted_sum(softmax(apply_mask(s, mask)), v)


@window_attention.def_fused
def _window_attention_fused(
    q: Tensor, k: Tensor, v: Tensor, w: int, scale: float | None = None, softcap: float | None = None
) -> Tensor:
    if softcap is not None:
        return window_attention.fn(q, k, v, w, scale, softcap)
    if q.shape[-2] > 2 * max(w, SHORTEST_BLOCK) and k.shape[-2] >= q.shape[-2]:
        return _in_blocks(q, k, v, w, scale)
    mask = sliding_window_mask.fn(q.shape[-2], k.shape[-2], w, dtype=q.dtype, device=q.device)
    return sdpa(q, k, v, mask, False, scale)


@window_attention.def_check
def _window_attention_check(q: Tensor, k: Tensor, v: Tensor) -> None:
    require_attention(window_attention.require, q, k, v)


def _in_blocks(q: Tensor, k: Tensor, v: Tensor, w: int, scale: float | None) -> Tensor:
    """Sliding-window attention in blocks of queries, each with the keys that its window reaches.

    Time and memory grow with queries times window, where a mask over all pairs grows with their square.
    """
    queries, block = q.shape[-2], max(w, SHORTEST_BLOCK)
    count, shown = -(-queries // block), block + w - 1
    first = k.shape[-2] - queries - (w - 1)  # the first key in the first query's window, negative if there is none
    end = count * block - queries
    asked = functional.pad(four_axes(q), (0, 0, 0, end)).unflatten(2, (count, block))
    near = (functional.pad(four_axes(t)[:, :, max(first, 0) :], (0, 0, max(-first, 0), end)) for t in (k, v))
    keys, values = (t.unfold(2, shown, block).mT for t in near)
    key, blocks = torch.arange(shown, device=q.device), torch.arange(count, device=q.device)
    real = key >= -first - block * blocks[:, None, None]
    visible = in_window(key - key[:block, None] - (w - 1), w) & real
    o = functional.scaled_dot_product_attention(
        *(t.transpose(1, 2).flatten(0, 1) for t in (asked, keys, values)),
        attn_mask=visible[None, :, None].expand(len(asked), -1, -1, -1, -1).flatten(0, 1),
        scale=scale,
        enable_gqa=k.shape[:-2] != q.shape[:-2],
    )
    o = o.unflatten(0, (-1, count)).transpose(1, 2).flatten(2, 3)
    return o[:, :, :queries].reshape(*q.shape[:-1], v.shape[-1])
