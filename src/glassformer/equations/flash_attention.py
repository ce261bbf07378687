"""FlashAttention's recurrence: attention tile by tile with a running softmax, exact, without the whole score matrix."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.attention import (
    apply_mask,
    attention_scores,
    attention_scores_gradient,
    weighted_sum_gradient,
)
from glassformer.equations.ranges import same_dtype, whole


@equation(
    r"m' = \max(m, \max_j s_j), \; \ell' = e^{m-m'}\ell + \textstyle\sum_j e^{s_j-m'}, \; "
    r"o' = e^{m-m'} o + \sum_j e^{s_j-m'} v_j, \quad O = o / \ell, \quad "
    r"s_j = \frac{q \cdot k_j}{\sqrt{d_k}} + M_j",
    meaning="Attention computed block by block, keeping only a running maximum, a running sum and a running output.",
    intuition="Counting votes ward by ward: when a new front runner appears, the old tallies are rescaled.",
    symbols={
        "q": "queries",
        "k": "keys",
        "v": "values",
        "mask=M": "added to the scores, or true where a query attends to a key",
        "block=": "number of keys in a tile",
        "scale=": "factor; one over the root of d_k if not given",
        "O": "outputs, the same as attention's",
    },
    names={"q": "queries", "k": "keys", "v": "values"},
    where={"q k v": same_dtype, "block": whole},
    upcast=True,
)
def tiled_attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*batch keys head_dim"],
    v: Float[Tensor, "*batch keys value_dim"],
    mask: Float[Tensor, "*#batch #queries #keys"] | Bool[Tensor, "*#batch #queries #keys"] | None = None,
    block: int = 64,
    scale: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Exact attention that never holds the whole score matrix: the FlashAttention recurrence (Dao et al., 2022)."""
    m = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
    l, o = torch.zeros_like(m), q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k.shape[-2], block):
        s = _tile(q, k, mask, slice(start, start + block), scale)
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        old, e = (m - m_new).exp(), (s - m_new).exp()
        l = old * l + e.sum(-1, keepdim=True)
        o = old * o + e @ v[..., start : start + block, :]
        m = m_new
    return o / l.clamp_min(1)  # the largest term is e^0, so only a query whose keys are all masked sums to less


def _tile(q: Tensor, k: Tensor, mask: Tensor | None, keys: slice, scale: float | None) -> Tensor:
    """Masked scores of one tile of keys."""
    s = attention_scores.fn(q, k[..., keys, :], scale)
    return s if mask is None else apply_mask.fn(s, mask.expand(*mask.shape[:-1], k.shape[-2])[..., keys])


@tiled_attention.def_gradient(
    r"D = \textstyle\sum_i \bar O_i O_i, \; A = e^{S - L}, \; \bar V = A^\top \bar O, \; "
    r"\bar S = A \odot (\bar O V^\top - D), \; \bar Q = \bar S K / \sqrt{d_k}, \; \bar K = \bar S^\top Q / \sqrt{d_k}"
)
def _tiled_attention_gradient(
    O_bar: Tensor, O: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, block: int, scale: float | None
) -> tuple[Tensor | None, ...]:
    tiles = [slice(start, start + block) for start in range(0, k.shape[-2], block)]
    sums = [_tile(q, k, mask, keys, scale).logsumexp(-1, keepdim=True) for keys in tiles]
    L = torch.cat(sums, -1).logsumexp(-1, keepdim=True).clamp_min(torch.finfo(q.dtype).min)
    D = (O_bar * O).sum(-1, keepdim=True)
    q_bar, k_bars, v_bars, s_bars = torch.zeros_like(q), [], [], []
    for keys in tiles:
        a = (_tile(q, k, mask, keys, scale) - L).exp()
        a_bar, v_bar = weighted_sum_gradient(O_bar, a, v[..., keys, :])
        s_bars.append(a * (a_bar - D))
        more, k_bar = attention_scores_gradient(s_bars[-1], q, k[..., keys, :], scale)
        q_bar = q_bar + more
        k_bars.append(k_bar)
        v_bars.append(v_bar)
    learned_mask = mask is not None and mask.dtype != torch.bool
    return q_bar, torch.cat(k_bars, -2), torch.cat(v_bars, -2), torch.cat(s_bars, -1) if learned_mask else None


@tiled_attention.def_cost
def _tiled_attention_cost(
    batch: int, queries: int, keys: int, head_dim: int, value_dim: int, mask: Tensor | None, block: int
) -> int:
    added = mask is not None and mask.dtype != torch.bool
    return (
        batch
        * queries
        * (keys * (2 * head_dim + 2 * value_dim + 5 + added) + -(-keys // block) * (2 * value_dim + 5) + value_dim + 1)
    )


@tiled_attention.def_check
def _tiled_attention_check(k: Tensor) -> None:
    tiled_attention.require(k.shape[-2] > 0, "k", f"of shape {list(k.shape)}", "at least one key")
