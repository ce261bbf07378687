"""Scaled dot-product attention as a whole, with masks, biases and grouped queries."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.algebra import add
from glassformer.equations.attention_steps import (
    BLOCKED,
    apply_mask,
    attention_scores,
    attention_scores_gradient,
    require_attention,
    sdpa,
    soft_cap,
    weighted_sum,
    weighted_sum_gradient,
)
from glassformer.equations.heads import repeat_kv
from glassformer.equations.masks import causal_mask
from glassformer.equations.ranges import optional, positive, same_dtype
from glassformer.equations.softmax import softmax


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + B + M\right) V",
    meaning="Each query gathers values from the keys it agrees with.",
    intuition="A librarian reads your request, weighs every book by its spine, and hands you a blend of their pages.",
    symbols={
        "q": "queries",
        "k": "keys",
        "v": "values",
        "mask": "added to the scores, or true where a query attends to a key",
        "bias": "added to the scores, for instance by distance",
        "causal": "whether no query attends past its own position, where the last query stands at the last key",
        "scale": "factor; one over the root of d_k if not given",
        "softcap": "soft cap of the scores",
        "o": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
    where={"q k v": same_dtype, "softcap": optional(positive)},
)
def attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*kv_batch keys head_dim"],
    v: Float[Tensor, "*kv_batch keys value_dim"],
    mask: Float[Tensor, "*#batch #queries #keys"] | Bool[Tensor, "*#batch #queries #keys"] | None = None,
    bias: Float[Tensor, "*#batch #queries #keys"] | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Scaled dot-product attention (Vaswani et al., 2017).

    Fewer key-value heads than query heads are repeated for their groups. A query whose keys are all masked gets zeros.
    """
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv(k, q.shape[-3]), repeat_kv(v, q.shape[-3])
    s = attention_scores(q, k, scale)
    if softcap is not None:
        s = soft_cap(s, softcap)
    if bias is not None:
        s = add(s, bias)
    if causal:
        s = apply_mask(s, causal_mask(q.shape[-2], k.shape[-2], dtype=q.dtype, device=q.device))
    if mask is not None:
        s = apply_mask(s, mask)
    return weighted_sum(softmax(s), v)


@attention.def_fused
def _attention_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    if softcap is not None:
        return attention.fn(q, k, v, mask, bias, causal, scale, softcap)
    if mask is not None and mask.dtype != torch.bool:
        mask = torch.where(mask <= BLOCKED, -torch.inf, mask).to(q.dtype)
    added = _joined(mask, bias)
    triangle = False  # set by a branch, because under the compiler a comparison of lengths is not a plain bool
    if causal and q.shape[-2] > 1:
        if added is None and q.shape[-2] == k.shape[-2]:
            triangle = True
        else:
            added = _joined(added, causal_mask.fn(q.shape[-2], k.shape[-2], dtype=q.dtype, device=q.device))
    return sdpa(q, k, v, added, triangle, scale)


def _joined(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The sum of two masks or biases; either may be missing, and the first may be boolean."""
    if a is None or b is None:
        return b if a is None else a
    if a.dtype == torch.bool:
        return torch.where(a, b, -torch.inf)
    return a + b


@attention.def_gradient(
    r"\bar V = A^\top \bar O, \; \bar A = \bar O V^\top, \; \bar S = A \odot (\bar A - \langle \bar A, A \rangle), "
    r"\; \bar Q = \bar S K / \sqrt{d_k}, \; \bar K = \bar S^\top Q / \sqrt{d_k}, \; \bar B = \bar S"
)
def _attention_gradient(  # noqa: PLR0913, PLR0917 - attention has these inputs
    o_bar: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    scale: float | None,
    softcap: float | None,
) -> tuple[Tensor | None, ...]:
    grouped = k.shape[:-2] != q.shape[:-2]
    keys, values = (repeat_kv.fn(t, q.shape[-3]) if grouped else t for t in (k, v))
    capped = attention_scores.fn(q, keys, scale)
    if softcap is not None:
        capped = soft_cap.fn(capped, softcap)
    a = _weights(capped, mask, bias, causal)
    a_bar, v_bar = weighted_sum_gradient(o_bar, a, values)
    s_bar = a * (a_bar - (a_bar * a).sum(-1, keepdim=True))
    added = s_bar
    if softcap is not None:
        s_bar = s_bar * (1 - (capped / softcap).square())
    q_bar, k_bar = attention_scores_gradient(s_bar, q, keys, scale)
    if grouped:
        k_bar, v_bar = (t.unflatten(-3, (k.shape[-3], -1)).sum(-3) for t in (k_bar, v_bar))
    learned_mask = mask is not None and mask.dtype != torch.bool
    return q_bar, k_bar, v_bar, added if learned_mask else None, None if bias is None else added


def _weights(s: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool) -> Tensor:
    """Attention weights from scores, outside any tape."""
    if bias is not None:
        s = s + bias
    if causal:
        s = apply_mask.fn(s, causal_mask.fn(s.shape[-2], s.shape[-1], dtype=s.dtype, device=s.device))
    return softmax.fn(s if mask is None else apply_mask.fn(s, mask))


@attention.def_check
def _attention_check(q: Tensor, k: Tensor, v: Tensor) -> None:
    require_attention(attention.require, q, k, v)
