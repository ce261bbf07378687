"""Attention and its steps: scores, mask, softmax, weighted sum."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import dot, factor, number
from glassformer.equation import equation
from glassformer.equations.algebra import add
from glassformer.equations.cpu_dropout_attention import dropout_attention_on_cpu
from glassformer.equations.heads import four_axes, repeat_kv
from glassformer.equations.masks import BLOCKED, causal_mask
from glassformer.equations.onednn_affine import eager_float32_on_cpu
from glassformer.equations.ranges import Require, below_one, finite, optional, positive, same_dtype
from glassformer.equations.regularization import dropout, kept_of, random_words
from glassformer.equations.softmax import softmax

FEW_KEYS = 256  # with fewer, gradients of attention in bfloat16 take a CPU up to seven times as long as in float32


@equation(
    r"S = \frac{Q K^\top}{\sqrt{d_k}}",
    meaning="Every query is compared with every key by their inner product, scaled to keep its spread near one.",
    intuition="A librarian holds each request against the spine of every book.",
    symbols={
        "q=Q": "queries",
        "k=K": "keys",
        "scale=": "factor; one over the root of d_k if not given",
        "s=S": "scores",
    },
    names={"q": "queries", "k": "keys", "s": "scores"},
    flops=lambda batch, queries, keys, head_dim: batch * queries * keys * (2 * head_dim + 1),
    where={"q k": same_dtype},
)
def attention_scores(
    q: Float[Tensor, "*batch queries head_dim"], k: Float[Tensor, "*batch keys head_dim"], scale: float | None = None
) -> Float[Tensor, "*batch queries keys"]:
    """Scaled inner products of queries and keys (Vaswani et al., 2017)."""
    return q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)


@attention_scores.def_gradient(r"\bar Q = \bar S K / \sqrt{d_k}, \quad \bar K = \bar S^\top Q / \sqrt{d_k}")
def attention_scores_gradient(s_bar: Tensor, q: Tensor, k: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    """The rule of `attention_scores`, which whole attention uses too."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return s_bar @ k * scale, s_bar.mT @ q * scale


@attention_scores.def_cell
def _attention_scores_cell(index: tuple[int, ...], q: Tensor, k: Tensor, scale: float | None) -> str:
    *batch, i, j = index
    products = dot(q[(*batch, i)], k[(*batch, j)])
    return f"({products}) / √({q.shape[-1]})" if scale is None else f"({products})·{factor(scale)}"


@equation(
    r"t = c \tanh(s / c)",
    meaning="Scores are squashed smoothly so that none exceeds a cap.",
    intuition="A soft ceiling: one can lean on it, not go through it.",
    symbols={"s": "scores", "c": "cap", "t": "capped scores"},
    names={"s": "scores"},
    flops=lambda shape: 3 * shape,
    where={"c": positive},
    upcast=True,
)
def soft_cap(s: Float[Tensor, "*shape"], c: float) -> Float[Tensor, "*shape"]:
    """Keep scores within plus and minus the cap, smoothly (Gemma 2, 2024)."""
    return c * torch.tanh(s / c)


@soft_cap.def_gradient(r"\bar s = \bar t \odot \left(1 - (t/c)^2\right)")
def _soft_cap_gradient(t_bar: Tensor, t: Tensor, c: float) -> Tensor:
    return t_bar * (1 - (t / c).square())


soft_cap.def_cell(lambda index, s, c: f"{number(c)}·tanh({number(s[index])} / {factor(c)})")


@equation(
    r"t = s + M, \quad M_{ij} \in \{0, -\infty\}",
    meaning="A key that a query must not attend to gets a score of minus infinity.",
    intuition="Blinkers: what is covered is not merely small, it is not there.",
    symbols={"s": "scores", "M": "what to add, or true where a query attends to a key", "t": "masked scores"},
    names={"s": "scores"},
    flops=lambda batch, queries, keys, M: 0 if M.dtype == torch.bool else batch * queries * keys,
)
def apply_mask(
    s: Float[Tensor, "*batch queries keys"],
    M: Float[Tensor, "*#batch #queries #keys"] | Bool[Tensor, "*#batch #queries #keys"],
) -> Float[Tensor, "*batch queries keys"]:
    """Add a mask to scores; an entry of minus a billion or less counts as minus infinity."""
    if M.dtype == torch.bool:
        return torch.where(M, s, -torch.inf)
    return torch.where(M <= BLOCKED, -torch.inf, s + M.to(s.dtype))


@apply_mask.def_gradient(r"\bar s = \bar t \text{ where allowed, } 0 \text{ elsewhere}, \quad \bar M = \bar s")
def _apply_mask_gradient(t_bar: Tensor, M: Tensor) -> tuple[Tensor, Tensor | None]:
    if M.dtype == torch.bool:
        return torch.where(M, t_bar, 0), None
    allowed = torch.where(M <= BLOCKED, 0, t_bar)
    return allowed, allowed


@apply_mask.def_cell
def _apply_mask_cell(index: tuple[int, ...], s: Tensor, M: Tensor) -> str:
    m = M.expand_as(s)[index]
    if M.dtype == torch.bool:
        return number(s[index]) if m else "−∞"
    return f"{number(s[index])} + {factor(m if m > BLOCKED else -torch.inf)}"


@equation(
    r"O = A V",
    meaning="Each query gets the average of the values, weighted by its attention to each key.",
    intuition="Thirty parts of this, fifty of that, twenty of the other, stirred.",
    symbols={"a=A": "attention weights", "v=V": "values", "o=O": "outputs"},
    names={"a": "weights", "v": "values", "o": "outputs"},
    flops=lambda batch, queries, keys, value_dim: 2 * batch * queries * keys * value_dim,
    where={"a v": same_dtype},
)
def weighted_sum(
    a: Float[Tensor, "*batch queries keys"], v: Float[Tensor, "*batch keys value_dim"]
) -> Float[Tensor, "*batch queries value_dim"]:
    """Average the values by the attention weights."""
    return a @ v


@weighted_sum.def_gradient(r"\bar A = \bar O V^\top, \quad \bar V = A^\top \bar O")
def weighted_sum_gradient(o_bar: Tensor, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The rule of `weighted_sum`, which whole attention uses too."""
    return o_bar @ v.mT, a.mT @ o_bar


@weighted_sum.def_cell
def _weighted_sum_cell(index: tuple[int, ...], a: Tensor, v: Tensor) -> str:
    *batch, i, j = index
    return dot(a[(*batch, i)], v[(*batch, slice(None), j)])


def sdpa(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None, dropout: float = 0.0
) -> Tensor:
    """Torch's fused scaled dot-product attention, for any number of leading axes."""
    added = None if mask is None else four_axes(mask.expand(*q.shape[:-2], *mask.shape[-2:]))
    settings = {"dropout_p": dropout, "is_causal": causal, "scale": scale, "enable_gqa": k.shape[:-2] != q.shape[:-2]}
    parts = (four_axes(q), four_axes(k), four_axes(v), added)
    attend = (
        sdpa_in_float32 if type(q) is Tensor and better_in_float32(q, k) else functional.scaled_dot_product_attention
    )
    return attend(*parts, **settings).reshape(*q.shape[:-1], v.shape[-1])


def better_in_float32(q: Tensor, k: Tensor) -> bool:
    """Whether attention is faster in float32 than in bfloat16: on a CPU, for gradients where there are few keys."""
    return q.is_cpu and q.dtype == torch.bfloat16 and torch.is_grad_enabled() and k.shape[-2] < FEW_KEYS


def sdpa_in_float32(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **settings: float | bool | None) -> Tensor:
    """Attention in float32, rounded; without autocast, which would round its inputs first."""
    added = mask if mask is None or mask.dtype == torch.bool else mask.float()
    with torch.autocast("cpu", enabled=False):
        o = functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), added, **settings)  # pyright: ignore[reportArgumentType]
    return o.to(q.dtype)


def require_attention(require: Require, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Key-value heads that divide the query heads, and finite numbers: a masked NaN would still reach the output."""
    batch, kv_batch = q.shape[:-2], k.shape[:-2]
    grouped = len(batch) == len(kv_batch) > 0 and batch[:-1] == kv_batch[:-1] and kv_batch[-1] > 0
    require(
        batch == kv_batch or (grouped and batch[-1] % kv_batch[-1] == 0),
        "k",
        f"of shape {list(k.shape)}",
        f"the leading axes {list(batch)} of q, or a number of heads that divides them",
    )
    finite(require, q=q, k=k, v=v)


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + B + M\right) V",
    meaning="Each query gathers values from the keys it agrees with.",
    intuition="A librarian reads your request, weighs every book by its spine, and hands you a blend of their pages.",
    symbols={
        "q=Q": "queries",
        "k=K": "keys",
        "v=V": "values",
        "mask=M": "added to the scores, or true where a query attends to a key",
        "bias=B": "added to the scores, for instance by distance",
        "causal=": "whether no query attends past its own position, where the last query stands at the last key",
        "scale=": "factor; one over the root of d_k if not given",
        "softcap=": "soft cap of the scores",
        "o=O": "outputs",
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
    return weighted_sum(softmax(masked_scores(attention_scores(q, k, scale), mask, bias, causal, softcap)), v)


def masked_scores(s: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool, softcap: float | None) -> Tensor:
    """What attention takes the softmax of: scores with soft cap, bias and masks, each where it is given."""
    if softcap is not None:
        s = soft_cap(s, softcap)
    if bias is not None:
        s = add(s, bias)
    if causal:
        s = apply_mask(s, causal_mask(s.shape[-2], s.shape[-1], dtype=s.dtype, device=s.device))
    return s if mask is None else apply_mask(s, mask)


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
    added, triangle = mask_and_triangle(q, k, mask, bias, causal)
    return sdpa(q, k, v, added, triangle, scale)


def mask_and_triangle(
    q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool
) -> tuple[Tensor | None, bool]:
    """What a fused kernel adds to the scores, and whether it masks the future by itself."""
    if mask is not None and mask.dtype != torch.bool:
        mask = torch.where(mask <= BLOCKED, -torch.inf, mask).to(q.dtype)
    added = _joined(mask, bias)
    if not causal or q.shape[-2] <= 1:
        return added, False
    # a branch, because under the compiler a comparison of lengths is not a plain bool
    if added is None and q.shape[-2] == k.shape[-2]:
        return None, True
    return _joined(added, causal_mask.fn(q.shape[-2], k.shape[-2], dtype=q.dtype, device=q.device)), False


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
    s = masked_scores(attention_scores(q, k, scale), mask, None, causal, None)
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
    if q.is_cuda and generator is None:  # the kernels of a GPU draw from its own generator alone
        added, triangle = mask_and_triangle(q, k, mask, None, causal)
        return sdpa(q, k, v, added, triangle, scale, p)
    if mask is not None or not eager_float32_on_cpu(q) or (causal and q.shape[-2] != k.shape[-2]):
        return dropout_attention.fn(q, k, v, mask, causal, scale, p, generator)
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv.fn(k, q.shape[-3]), repeat_kv.fn(v, q.shape[-3])
    shape = torch.Size([q.shape[:-2].numel(), q.shape[-2], k.shape[-2]])
    words = random_words(shape, generator)  # in the order of the formula
    return dropout_attention_on_cpu(q, k, v, lambda *piece: kept_of(words[:, *piece], p), causal, scale, p)


@dropout_attention.def_check
def _dropout_attention_check(q: Tensor, k: Tensor, v: Tensor) -> None:
    require_attention(dropout_attention.require, q, k, v)
