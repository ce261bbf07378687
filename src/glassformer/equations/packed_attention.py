"""Attention in packed rows: several documents in one row, each of which attends to itself alone.

Documents are given by their bounds: document k of a row is made of tokens c_k to c_{k+1} − 1. Bounds that are equal
have an empty document between them, so that rows of any content have as many bounds.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.attention import attention, require_attention
from glassformer.equations.attention_in_pieces import as_autocast
from glassformer.equations.document_attention import short_documents
from glassformer.equations.masks import additive_mask
from glassformer.equations.ranges import Require, at_least, float_dtype, optional, same_dtype, whole
from glassformer.torch_private import flash_documents


@equation(
    r"p_i = i - c_{k(i)}, \quad k(i) = \max\{k : c_k \le i\}",
    meaning="In a row of several documents, positions start again at 0 in each document.",
    intuition="Page numbers of a volume of stories that begin anew with each story.",
    symbols={
        "c": "bounds of the documents of a row: the first token of each, and at the end the number of tokens",
        "tokens=": "number of tokens of a row",
        "p": "position of each token in its own document",
    },
    where={"tokens": at_least(0)},
)
def document_positions(c: Int[Tensor, "*batch bounds"], tokens: int) -> Int[Tensor, "*batch seq"]:
    """Positions that begin at 0 in every document of a packed row."""
    return torch.arange(tokens, device=c.device) - c.long().gather(-1, _documents(c, tokens))


@document_positions.def_cell
def _document_positions_cell(index: tuple[int, ...], c: Tensor) -> str:
    *batch, i = index
    bounds = c[tuple(batch)]
    return f"{i} − {int(bounds[bounds <= i].max())}"


@document_positions.def_check
def _document_positions_check(c: Tensor, tokens: int) -> None:
    _bounds(document_positions.require, tokens, c=c)


def _documents(c: Tensor, tokens: int) -> Tensor:
    """The document that each token of a row belongs to."""
    i = torch.arange(tokens, device=c.device).expand(*c.shape[:-1], -1).contiguous()
    return torch.searchsorted(c.long().contiguous(), i, right=True) - 1


def _bounds(require: Require, tokens: int, **bounds: Tensor) -> None:
    """A condition: bounds rise from 0 to the number of tokens."""
    for symbol, c in bounds.items():
        rises = c.is_meta or (c.shape[-1] > 0 and bool((c[..., 0] == 0).all() & (c.diff() >= 0).all()))
        ends = c.is_meta or (rises and bool((c[..., -1] == tokens).all()))
        require(rises and ends, symbol, c, f"bounds that rise from 0 to {tokens}, the number of tokens")


@equation(
    r"M_{ij} = \begin{cases} 0 & k(i) = k'(j) \text{ and } e_{k'(j) + 1} - j \ge c_{k(i) + 1} - i"
    r" \text{ if causal} \\ -\infty & \text{otherwise} \end{cases}",
    meaning="A token attends to its own document, and where attention is causal to nothing that follows it there.",
    intuition="Walls between the desks of a shared office.",
    symbols={
        "c": "bounds of the documents of the queries",
        "e": "bounds of the documents of the keys",
        "queries=": "number of queries of a row",
        "keys=": "number of keys of a row",
        "causal=": "whether no query attends past its own position, where documents end together",
        "dtype=": "dtype",
        "M": "mask to add to the scores of all heads",
    },
    flops=lambda: 0,
    where={"queries keys": at_least(0), "dtype": float_dtype},
)
def document_mask(
    c: Int[Tensor, "batch bounds"],
    e: Int[Tensor, "batch bounds"],
    queries: int,
    keys: int,
    causal: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "batch 1 queries keys"]:
    """Hide all documents of a packed row from each other."""
    k, other = _documents(c, queries), _documents(e, keys)
    visible = k[:, :, None] == other[:, None, :]
    if causal:  # by the tokens that are left of a document: a query has at least as few as a key that it sees
        left = c.long().gather(-1, k + 1) - torch.arange(queries, device=c.device)
        ahead = e.long().gather(-1, other + 1) - torch.arange(keys, device=e.device)
        visible = visible & (ahead[:, None, :] >= left[:, :, None])
    return additive_mask.fn(visible[:, None], dtype=dtype)


@document_mask.def_check
def _document_mask_check(c: Tensor, e: Tensor, queries: int, keys: int) -> None:
    _bounds(document_mask.require, queries, c=c)
    _bounds(document_mask.require, keys, e=e)


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V, \quad"
    r" M_{ij} = \begin{cases} 0 & k(i) = k'(j) \\ -\infty & \text{otherwise} \end{cases}",
    meaning="Documents that share a row attend to themselves alone: no padding is needed to make them equally long.",
    intuition="Several conversations at one long table, each heard only by those who are part of it.",
    symbols={
        "q=Q": "queries",
        "k=K": "keys",
        "v=V": "values",
        "c=k": "bounds of the documents of the queries, by which query i is in document k(i)",
        "e=k'": "bounds of the documents of the keys, by which key j is in document k'(j)",
        "longest=": "most tokens of a document, for which a kernel makes room; those of a row if not given",
        "causal=": "whether no query attends past its own position, where documents end together",
        "scale=": "factor; one over the root of d_k if not given",
        "o=O": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
    where={"q k v": same_dtype, "longest": optional(whole)},
)
def packed_attention(
    q: Float[Tensor, "batch heads queries head_dim"],
    k: Float[Tensor, "batch kv_heads keys head_dim"],
    v: Float[Tensor, "batch kv_heads keys value_dim"],
    c: Int[Tensor, "batch bounds"],
    e: Int[Tensor, "batch bounds"],
    longest: int | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Tensor, "batch heads queries value_dim"]:
    """Attention within each document of packed rows (Krell et al., 2021)."""
    mask = document_mask(c, e, q.shape[-2], k.shape[-2], causal, dtype=q.dtype)
    return attention(q, k, v, mask, scale=scale)


@packed_attention.def_fused
def _packed_attention_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    c: Tensor,
    e: Tensor,
    longest: int | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    o = packed_kernel(q, k, v, (c, e), longest, causal, scale)
    if o is not None:
        return o
    mask = document_mask.fn(c, e, q.shape[-2], k.shape[-2], causal, dtype=q.dtype)
    return attention.kernel(q, k, v, mask, None, False, scale, None)


@packed_attention.def_check
def _packed_attention_check(q: Tensor, k: Tensor, v: Tensor, c: Tensor, e: Tensor, longest: int | None) -> None:
    require_attention(packed_attention.require, q, k, v)
    _bounds(packed_attention.require, q.shape[-2], c=c)
    _bounds(packed_attention.require, k.shape[-2], e=e)
    if longest is not None and not c.is_meta:
        most = max(int(c.diff().max()), int(e.diff().max())) if c.shape[-1] > 1 else 0
        packed_attention.require(longest >= most, "longest", longest, f"at least {most}, the tokens of a document")


def packed_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bounds: tuple[Tensor, Tensor],
    longest: int | None,
    causal: bool,
    scale: float | None,
    p: float = 0.0,
) -> Tensor | None:
    """Packed attention by a kernel that can drop weights too, or None where there is none: on a CPU, in float32."""
    q, k, v = as_autocast(q, k, v)
    o = short_documents(q, k, v, bounds, longest, causal, scale, p)
    return flash_documents(q, k, v, bounds, longest, causal, scale, p) if o is None else o
