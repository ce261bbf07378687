"""Attention in training: the weights pass through dropout before they average the values."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.attention import (
    apply_mask,
    attention_scores,
    mask_and_triangle,
    require_attention,
    sdpa,
    weighted_sum,
)
from glassformer.equations.heads import repeat_kv
from glassformer.equations.masks import causal_mask
from glassformer.equations.ranges import below_one, same_dtype
from glassformer.equations.regularization import dropout
from glassformer.equations.softmax import softmax


@equation(
    r"O = \operatorname{dropout}_p\left(\operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right)\right) V",
    meaning="Each query gathers values from the keys it agrees with, and in training overlooks some of them at random.",
    intuition="A reader who skips a few lines each time learns not to hang everything on a single one.",
    symbols={
        "q=Q": "queries",
        "k=K": "keys",
        "v=V": "values",
        "mask=M": "added to the scores, or true where a query attends to a key",
        "causal=": "whether no query attends past its own position, where the last query stands at the last key",
        "scale=": "factor; one over the root of d_k if not given",
        "p": "probability of dropping an attention weight",
        "generator=": "random generator; torch's default if not given",
        "o=O": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
    where={"q k v": same_dtype, "p": below_one},
)
def dropout_attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*kv_batch keys head_dim"],
    v: Float[Tensor, "*kv_batch keys value_dim"],
    mask: Float[Tensor, "*#batch #queries #keys"] | Bool[Tensor, "*#batch #queries #keys"] | None = None,
    causal: bool = False,
    scale: float | None = None,
    p: float = 0.0,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Scaled dot-product attention with dropout on its weights (Vaswani et al., 2017)."""
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv(k, q.shape[-3]), repeat_kv(v, q.shape[-3])
    s = attention_scores(q, k, scale)
    if causal:
        s = apply_mask(s, causal_mask(q.shape[-2], k.shape[-2], dtype=s.dtype, device=s.device))
    if mask is not None:
        s = apply_mask(s, mask)
    return weighted_sum(dropout(softmax(s), p, generator), v)


@dropout_attention.def_fused
def _dropout_attention_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    p: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    if generator is not None or not q.is_cuda:  # the kernels of a GPU draw from its own generator alone
        return dropout_attention.fn(q, k, v, mask, causal, scale, p, generator)
    added, triangle = mask_and_triangle(q, k, mask, None, causal)
    return sdpa(q, k, v, added, triangle, scale, p)


@dropout_attention.def_check
def _dropout_attention_check(q: Tensor, k: Tensor, v: Tensor) -> None:
    require_attention(dropout_attention.require, q, k, v)
