"""Attention: how much each row looks at every other, and what it takes away."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import dot, factor, number
from glassformer.equation import equation
from glassformer.equations.algebra import add
from glassformer.equations.heads import repeat_kv
from glassformer.equations.masks import causal_mask, in_window, sliding_window_mask
from glassformer.equations.probability import softmax
from glassformer.equations.ranges import same_dtype, whole

SHORTEST_BLOCK = 128  # queries that are taken together where attention goes through a window
BLOCKED = -1e9  # a mask entry this low or lower blocks a pair for good; minus infinity is the usual one


@equation(
    r"S = \frac{Q K^\top}{\sqrt{d_k}}",
    meaning="Every query is compared with every key by their inner product, scaled to keep its spread near one.",
    intuition="A librarian holds each request against the spine of every book.",
    symbols={
        "q": "queries",
        "k": "keys",
        "scale": "factor, one over the root of the width if not given",
        "s": "scores",
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
    meaning="Scores are bent so that none can pass a ceiling.",
    intuition="A soft ceiling: one can lean on it, not go through it.",
    symbols={"s": "scores", "c": "the ceiling", "t": "bent scores"},
    names={"s": "scores"},
    flops=lambda shape: 3 * shape,
    upcast=True,
)
def soft_cap(s: Float[Tensor, "*shape"], c: float) -> Float[Tensor, "*shape"]:
    """Keep scores within plus and minus the cap, smoothly (Gemma 2, 2024)."""
    return c * torch.tanh(s / c)


@soft_cap.def_gradient(r"\bar s = \bar t \odot \left(1 - (t/c)^2\right)")
def _soft_cap_gradient(t_bar: Tensor, t: Tensor, c: float) -> Tensor:
    return t_bar * (1 - (t / c).square())


@soft_cap.def_cell
def _soft_cap_cell(index: tuple[int, ...], s: Tensor, c: float) -> str:
    return f"{number(c)}·tanh({number(s[index])} / {factor(c)})"


@soft_cap.def_check
def _soft_cap_check(c: float) -> None:
    soft_cap.require(c > 0, "c", c, "a ceiling above zero")


@equation(
    r"t = s + M, \quad M_{ij} \in \{0, -\infty\}",
    meaning="Pairs that must not meet get a score of minus infinity.",
    intuition="Blinkers: what is covered is not merely small, it is not there.",
    symbols={"s": "scores", "M": "what to add, or true where a query may look", "t": "masked scores"},
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
    seen = M.expand_as(s)[index]
    if M.dtype == torch.bool:
        return number(s[index]) if seen else "−∞"
    return f"{number(s[index])} + {factor(seen if seen > BLOCKED else -torch.inf)}"


@equation(
    r"O = A V",
    meaning="Each query takes the average of the values, weighed by how much it looks at each.",
    intuition="Thirty parts of this, fifty of that, twenty of the other, stirred.",
    symbols={"a": "weights", "v": "values", "o": "outputs"},
    names={"a": "weights", "v": "values", "o": "outputs"},
    flops=lambda batch, queries, keys, value_dim: 2 * batch * queries * keys * value_dim,
    where={"a v": same_dtype},
)
def weighted_sum(
    a: Float[Tensor, "*batch queries keys"], v: Float[Tensor, "*batch keys value_dim"]
) -> Float[Tensor, "*batch queries value_dim"]:
    """Mix the values by the attention weights."""
    return a @ v


@weighted_sum.def_gradient(r"\bar A = \bar O V^\top, \quad \bar V = A^\top \bar O")
def weighted_sum_gradient(o_bar: Tensor, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The rule of `weighted_sum`, which whole attention uses too."""
    return o_bar @ v.mT, a.mT @ o_bar


@weighted_sum.def_cell
def _weighted_sum_cell(index: tuple[int, ...], a: Tensor, v: Tensor) -> str:
    *batch, i, j = index
    return dot(a[(*batch, i)], v[(*batch, slice(None), j)])


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + B + M\right) V",
    meaning="Each query gathers values from the keys it agrees with.",
    intuition="A librarian reads your request, weighs every book by its spine, and hands you a blend of their pages.",
    symbols={
        "q": "queries",
        "k": "keys",
        "v": "values",
        "mask": "added to the scores, or true where a query may look",
        "bias": "added to the scores, for instance by distance",
        "causal": "no query looks past its own place, counted from the end",
        "scale": "factor, one over the root of the width if not given",
        "cap": "soft ceiling of the scores",
        "o": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
)
def attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*groups keys head_dim"],
    v: Float[Tensor, "*groups keys value_dim"],
    mask: Float[Tensor, "*#batch #queries #keys"] | Bool[Tensor, "*#batch #queries #keys"] | None = None,
    bias: Float[Tensor, "*#batch #queries #keys"] | None = None,
    causal: bool = False,
    scale: float | None = None,
    cap: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Scaled dot-product attention (Vaswani et al., 2017).

    Fewer key-value heads than query heads are shared in groups. A query that may look at nothing gets zeros.
    """
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv(k, q.shape[-3]), repeat_kv(v, q.shape[-3])
    s = attention_scores(q, k, scale)
    if cap is not None:
        s = soft_cap(s, cap)
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
    cap: float | None = None,
) -> Tensor:
    if cap is not None:
        return attention.fn(q, k, v, mask, bias, causal, scale, cap)
    if mask is not None and mask.dtype != torch.bool:
        mask = torch.where(mask <= BLOCKED, -torch.inf, mask).to(q.dtype)
    added = _joined(mask, bias)
    triangle = False  # set by a branch, for compiled a comparison of lengths is no plain bool
    if causal and q.shape[-2] > 1:
        if added is None and q.shape[-2] == k.shape[-2]:
            triangle = True
        else:
            added = _joined(added, causal_mask.fn(q.shape[-2], k.shape[-2], dtype=q.dtype, device=q.device))
    o = functional.scaled_dot_product_attention(
        _four(q),
        _four(k),
        _four(v),
        attn_mask=None if added is None else _four(added.expand(*q.shape[:-2], *added.shape[-2:])),
        is_causal=triangle,
        scale=scale,
        enable_gqa=k.shape[:-2] != q.shape[:-2],
    )
    return o.reshape(*q.shape[:-1], v.shape[-1])


def _four(t: Tensor) -> Tensor:
    """The same tensor with four axes, as the fused kernels want it: batch, heads, rows, width."""
    while t.dim() < 4:
        t = t.unsqueeze(0)
    return t.flatten(0, -4)


def _joined(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Two things to add to the scores as one; either may be missing, the first may be true where a query may look."""
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
    cap: float | None,
) -> tuple[Tensor | None, ...]:
    shared = k.shape[:-2] != q.shape[:-2]
    keys, values = (repeat_kv.fn(t, q.shape[-3]) if shared else t for t in (k, v))
    capped = attention_scores.fn(q, keys, scale)
    if cap is not None:
        capped = soft_cap.fn(capped, cap)
    a = _weights(capped, mask, bias, causal)
    a_bar, v_bar = weighted_sum_gradient(o_bar, a, values)
    s_bar = a * (a_bar - (a_bar * a).sum(-1, keepdim=True))
    added = s_bar
    if cap is not None:
        s_bar = s_bar * (1 - (capped / cap).square())
    q_bar, k_bar = attention_scores_gradient(s_bar, q, keys, scale)
    if shared:
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
def _attention_check(q: Tensor, k: Tensor, v: Tensor, cap: float | None) -> None:
    batch, groups = q.shape[:-2], k.shape[:-2]
    grouped = len(batch) == len(groups) > 0 and batch[:-1] == groups[:-1] and groups[-1] > 0
    attention.require(
        batch == groups or (grouped and batch[-1] % groups[-1] == 0),
        "k",
        f"of shape {list(k.shape)}",
        f"the leading axes {list(batch)} of q, or a number of heads that divides them",
    )
    attention.require_type("q", q, k=k, v=v)
    attention.require(cap is None or cap > 0, "cap", cap, "a ceiling above zero")
    for name, tensor in {"q": q, "k": k, "v": v}.items():
        finite = not (tensor.isnan() | tensor.isinf()).any()
        attention.require(finite, name, "NaN or infinite in places", "finite numbers")


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V, \quad"
    r" M_{ij} = \begin{cases} 0 & p_i - w < j \le p_i \\ -\infty & \text{otherwise} \end{cases}",
    meaning="Each query gathers values from the last few keys alone: the work grows with the length, not its square.",
    intuition="Reading through a slot in a card that slides along the line.",
    symbols={
        "q": "queries",
        "k": "keys",
        "v": "values",
        "w": "how many positions back a query looks, its own among them",
        "scale": "factor, one over the root of the width if not given",
        "cap": "soft ceiling of the scores",
        "o": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
)
def window_attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*groups keys head_dim"],
    v: Float[Tensor, "*groups keys value_dim"],
    w: int,
    scale: float | None = None,
    cap: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Causal attention through a sliding window (Beltagy et al., 2020)."""
    mask = sliding_window_mask(q.shape[-2], k.shape[-2], w, dtype=q.dtype, device=q.device)
    return attention(q, k, v, mask, scale=scale, cap=cap)


@window_attention.def_fused
def _window_attention_fused(
    q: Tensor, k: Tensor, v: Tensor, w: int, scale: float | None = None, cap: float | None = None
) -> Tensor:
    long = q.shape[-2] > 2 * max(w, SHORTEST_BLOCK) and k.shape[-2] >= q.shape[-2]
    if cap is None and long:
        return _blocks_of_a_window(q, k, v, w, scale)
    mask = sliding_window_mask.fn(q.shape[-2], k.shape[-2], w, dtype=q.dtype, device=q.device)
    return _attention_fused(q, k, v, mask, scale=scale, cap=cap)


@window_attention.def_gradient(r"\bar Q, \bar K, \bar V \text{ as in attention with the mask } M")
def _window_attention_gradient(
    o_bar: Tensor, q: Tensor, k: Tensor, v: Tensor, w: int, scale: float | None, cap: float | None
) -> tuple[Tensor | None, ...]:
    mask = sliding_window_mask.fn(q.shape[-2], k.shape[-2], w, dtype=q.dtype, device=q.device)
    return _attention_gradient(o_bar, q, k, v, mask, None, False, scale, cap)[:3]


@window_attention.def_check
def _window_attention_check(q: Tensor, k: Tensor, v: Tensor, w: int, cap: float | None) -> None:
    whole(window_attention.require, 1, w=w)
    _attention_check(q, k, v, cap)


def _blocks_of_a_window(q: Tensor, k: Tensor, v: Tensor, w: int, scale: float | None) -> Tensor:
    """Attention through a window in blocks of queries, each with the keys that its window reaches.

    Time and memory grow with queries times window, where a mask over all pairs grows with their square.
    """
    queries, block = q.shape[-2], max(w, SHORTEST_BLOCK)
    count, shown = -(-queries // block), block + w - 1
    first = k.shape[-2] - queries - (w - 1)  # the first key that the first query sees, negative if not there yet
    end = count * block - queries
    asked = functional.pad(_four(q), (0, 0, 0, end)).unflatten(2, (count, block))
    near = (functional.pad(_four(t)[:, :, max(first, 0) :], (0, 0, max(-first, 0), end)) for t in (k, v))
    keys, values = (t.unfold(2, shown, block).mT for t in near)
    place, blocks = torch.arange(shown, device=q.device), torch.arange(count, device=q.device)
    real = place >= -first - block * blocks[:, None, None]
    seen = in_window(place - place[:block, None] - (w - 1), w) & real
    o = functional.scaled_dot_product_attention(
        *(t.transpose(1, 2).flatten(0, 1) for t in (asked, keys, values)),
        attn_mask=seen[None, :, None].expand(len(asked), -1, -1, -1, -1).flatten(0, 1),
        scale=scale,
        enable_gqa=k.shape[:-2] != q.shape[:-2],
    )
    o = o.unflatten(0, (-1, count)).transpose(1, 2).flatten(2, 3)
    return o[:, :, :queries].reshape(*q.shape[:-1], v.shape[-1])
