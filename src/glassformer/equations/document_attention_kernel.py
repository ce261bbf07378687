# pyright: basic, reportMissingImports=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
"""Triton kernels for attention within short documents: one program per document and head, forward and backward.

A kernel for long sequences gives each document whole tiles of 128 tokens. Here a program loops over the blocks of its
document, and since all queries and keys of a document are at hand, no gradient is added up between programs.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
BLOCK = 64  # most queries, or keys, that a program holds at once


@triton.jit
def _kept(seed_ptr, p, row, key, keys):
    """Which attention weights are kept, by the row among the queries of all heads, and the key."""
    number = (row[:, None] * keys + key[None, :]).to(tl.int32)  # 32 bits: random numbers of 64 take longer
    return tl.rand(tl.load(seed_ptr), number) >= p


@triton.jit
def _allowed(i, j, queries, keys, CAUSAL: tl.constexpr):
    allowed = (i < queries)[:, None] & (j < keys)[None, :]
    if CAUSAL:  # queries and keys end together
        allowed = allowed & (j[None, :] <= i[:, None] + (keys - queries))
    return allowed


@triton.jit
def _indices(bounds):
    """The batch row, the document and the head of a program. Rows and heads have 64 bits, as offsets in memory need."""
    program = tl.program_id(0)
    return (program // (bounds - 1)).to(tl.int64), program % (bounds - 1), tl.program_id(1).to(tl.int64)


@triton.jit
def _span(bounds_ptr, at):
    """The first token of a document, in 64 bits too, and the number of its tokens."""
    first, end = tl.load(bounds_ptr + at), tl.load(bounds_ptr + at + 1)
    return first.to(tl.int64), end - first


@triton.jit
def _forward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, c_ptr, e_ptr, seed_ptr, q_batch, q_head, q_row, k_batch, k_head, k_row,
    v_batch, v_head, v_row, heads, bounds, q_tokens, longest, scale, p,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, DIM: tl.constexpr, VALUE_DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    batch, document, head = _indices(bounds)
    c0, queries = _span(c_ptr, batch * bounds + document)
    e0, keys = _span(e_ptr, batch * bounds + document)
    d, dv = tl.arange(0, DIM)[None, :], tl.arange(0, VALUE_DIM)[None, :]
    first = (batch * heads + head) * q_tokens + c0  # among the queries of all heads
    for m in range(0, queries, BLOCK):
        i = m + tl.arange(0, BLOCK)
        inside = (i < queries)[:, None]
        q = tl.load(q_ptr + batch * q_batch + head * q_head + (c0 + i)[:, None] * q_row + d, mask=inside, other=0.0)
        most = tl.full((BLOCK,), -float("inf"), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        mixed = tl.zeros((BLOCK, VALUE_DIM), tl.float32)
        for n in range(0, keys, BLOCK):
            j = n + tl.arange(0, BLOCK)
            there = (j < keys)[:, None]
            k = tl.load(k_ptr + batch * k_batch + head * k_head + (e0 + j)[:, None] * k_row + d, mask=there, other=0.0)
            v = tl.load(v_ptr + batch * v_batch + head * v_head + (e0 + j)[:, None] * v_row + dv, mask=there, other=0.0)
            scores = tl.dot(q, tl.trans(k)) * (scale * LOG2E)
            scores = tl.where(_allowed(i, j, queries, keys, CAUSAL), scores, -float("inf"))
            now = tl.maximum(most, tl.max(scores, 1))
            finite = tl.where(now == -float("inf"), 0.0, now)
            weights = tl.exp2(scores - finite[:, None])
            shrink = tl.exp2(most - finite)
            total = total * shrink + tl.sum(weights, 1)
            if DROPS:
                weights = tl.where(_kept(seed_ptr, p, first + i, j, longest), weights / (1 - p), 0.0)
            mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v)
            most = now
        empty = total == 0.0
        lse = tl.where(empty, 0.0, most + tl.log2(tl.where(empty, 1.0, total)))
        mixed = mixed / tl.where(empty, 1.0, total)[:, None]
        tl.store(lse_ptr + first + i, lse, mask=i < queries)
        at = o_ptr + ((batch * q_tokens + c0 + i) * heads + head)[:, None] * VALUE_DIM + dv
        tl.store(at, mixed.to(o_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _weights(
    q, k, v, o_bar, delta, lse, i, j, row, queries, keys, longest, scale, p, seed_ptr, CAUSAL: tl.constexpr,
    DROPS: tl.constexpr,
):  # fmt: skip
    """The attention weights after dropout, and the gradient of the scores before their scale."""
    scores = tl.dot(q, tl.trans(k)) * (scale * LOG2E)
    allowed = _allowed(i, j, queries, keys, CAUSAL)
    weights = tl.where(allowed, tl.exp2(tl.where(allowed, scores - lse[:, None], 0.0)), 0.0)
    weights_bar = tl.dot(o_bar, tl.trans(v))
    dropped = weights
    if DROPS:
        kept = _kept(seed_ptr, p, row, j, longest)
        dropped = tl.where(kept, weights / (1 - p), 0.0)
        weights_bar = tl.where(kept, weights_bar / (1 - p), 0.0)
    return dropped, weights * (weights_bar - delta[:, None])


@triton.jit
def _backward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, c_ptr, e_ptr, seed_ptr, g_ptr, dq_ptr, dk_ptr, dv_ptr, q_batch, q_head, q_row,
    k_batch, k_head, k_row, v_batch, v_head, v_row, g_batch, g_head, g_row, heads, bounds, q_tokens, k_tokens, longest,
    scale, p, CAUSAL: tl.constexpr, DROPS: tl.constexpr, DIM: tl.constexpr, VALUE_DIM: tl.constexpr,
    BLOCK: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """Gradients of keys and values, and of queries too where a document is one block."""
    batch, document, head = _indices(bounds)
    c0, queries = _span(c_ptr, batch * bounds + document)
    e0, keys = _span(e_ptr, batch * bounds + document)
    d, dv = tl.arange(0, DIM)[None, :], tl.arange(0, VALUE_DIM)[None, :]
    first = (batch * heads + head) * q_tokens + c0
    kind = dq_ptr.dtype.element_ty
    for n in range(0, tl.maximum(keys, 1), BLOCK):  # queries without keys get a gradient too, of zero
        j = n + tl.arange(0, BLOCK)
        there = (j < keys)[:, None]
        k = tl.load(k_ptr + batch * k_batch + head * k_head + (e0 + j)[:, None] * k_row + d, mask=there, other=0.0)
        v = tl.load(v_ptr + batch * v_batch + head * v_head + (e0 + j)[:, None] * v_row + dv, mask=there, other=0.0)
        k_bar = tl.zeros((BLOCK, DIM), tl.float32)
        v_bar = tl.zeros((BLOCK, VALUE_DIM), tl.float32)
        for m in range(0, queries, BLOCK):
            i = m + tl.arange(0, BLOCK)
            inside = (i < queries)[:, None]
            row = ((batch * q_tokens + c0 + i) * heads + head)[:, None]
            q = tl.load(q_ptr + batch * q_batch + head * q_head + (c0 + i)[:, None] * q_row + d, mask=inside, other=0.0)
            g = tl.load(
                g_ptr + batch * g_batch + head * g_head + (c0 + i)[:, None] * g_row + dv, mask=inside, other=0.0
            )
            o = tl.load(o_ptr + row * VALUE_DIM + dv, mask=inside, other=0.0)
            lse = tl.load(lse_ptr + first + i, mask=i < queries, other=0.0)
            delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
            dropped, scores_bar = _weights(
                q, k, v, g, delta, lse, i, j, first + i, queries, keys, longest, scale, p, seed_ptr, CAUSAL, DROPS
            )
            v_bar += tl.dot(tl.trans(dropped.to(kind)), g)
            k_bar += tl.dot(tl.trans(scores_bar.to(kind)), q)
            if ONE:
                q_bar = tl.dot(scores_bar.to(kind), k) * scale
                tl.store(dq_ptr + row * DIM + d, q_bar.to(kind), mask=inside)
        key_row = ((batch * k_tokens + e0 + j) * heads + head)[:, None]
        tl.store(dk_ptr + key_row * DIM + d, (k_bar * scale).to(kind), mask=there)
        tl.store(dv_ptr + key_row * VALUE_DIM + dv, v_bar.to(kind), mask=there)


@triton.jit
def _query_backward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, c_ptr, e_ptr, seed_ptr, g_ptr, dq_ptr, q_batch, q_head, q_row, k_batch, k_head,
    k_row, v_batch, v_head, v_row, g_batch, g_head, g_row, heads, bounds, q_tokens, longest, scale, p,
    CAUSAL: tl.constexpr, DROPS: tl.constexpr, DIM: tl.constexpr, VALUE_DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of queries where a document is several blocks."""
    batch, document, head = _indices(bounds)
    c0, queries = _span(c_ptr, batch * bounds + document)
    e0, keys = _span(e_ptr, batch * bounds + document)
    d, dv = tl.arange(0, DIM)[None, :], tl.arange(0, VALUE_DIM)[None, :]
    first = (batch * heads + head) * q_tokens + c0
    for m in range(0, queries, BLOCK):
        i = m + tl.arange(0, BLOCK)
        inside = (i < queries)[:, None]
        row = ((batch * q_tokens + c0 + i) * heads + head)[:, None]
        q = tl.load(q_ptr + batch * q_batch + head * q_head + (c0 + i)[:, None] * q_row + d, mask=inside, other=0.0)
        g = tl.load(g_ptr + batch * g_batch + head * g_head + (c0 + i)[:, None] * g_row + dv, mask=inside, other=0.0)
        o = tl.load(o_ptr + row * VALUE_DIM + dv, mask=inside, other=0.0)
        lse = tl.load(lse_ptr + first + i, mask=i < queries, other=0.0)
        delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
        q_bar = tl.zeros((BLOCK, DIM), tl.float32)
        for n in range(0, keys, BLOCK):
            j = n + tl.arange(0, BLOCK)
            there = (j < keys)[:, None]
            k = tl.load(k_ptr + batch * k_batch + head * k_head + (e0 + j)[:, None] * k_row + d, mask=there, other=0.0)
            v = tl.load(v_ptr + batch * v_batch + head * v_head + (e0 + j)[:, None] * v_row + dv, mask=there, other=0.0)
            _, scores_bar = _weights(
                q, k, v, g, delta, lse, i, j, first + i, queries, keys, longest, scale, p, seed_ptr, CAUSAL, DROPS
            )
            q_bar += tl.dot(scores_bar.to(k.dtype), k)
        tl.store(dq_ptr + row * DIM + d, (q_bar * scale).to(dq_ptr.dtype.element_ty), mask=inside)


@dataclass(frozen=True)
class DocumentBounds:
    """The documents of packed rows, and how attention within them is computed.

    `tensors` are the bounds of queries, those of keys, and where weights are dropped a seed.
    """

    tensors: list[Tensor]
    longest: int
    causal: bool
    scale: float
    p: float

    def pointers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Both bounds, and the seed or whatever tensor stands for it."""
        return self.tensors[0], self.tensors[1], self.tensors[-1]

    def launch(self, heads: int) -> tuple[tuple[int, int], int, int]:
        """One program per document and head, the tokens it holds at once, and its warps."""
        c = self.tensors[0]
        block = max(16, min(BLOCK, triton.next_power_of_2(self.longest)))
        return (len(c) * (c.shape[-1] - 1), heads), block, 4 if block == BLOCK else 2


def forward(q: Tensor, k: Tensor, v: Tensor, documents: DocumentBounds) -> tuple[Tensor, Tensor]:
    """Outputs [batch, heads, queries, value_dim] and the logarithm to base 2 of each query's sum of weights."""
    batch, heads, tokens, dim = q.shape
    o = q.new_empty(batch, tokens, heads, v.shape[-1]).transpose(1, 2)
    lse = torch.empty(batch, heads, tokens, dtype=torch.float32, device=q.device)
    grid, block, warps = documents.launch(heads)
    strides = (each for t in (q, k, v) for each in t.stride()[:3])
    with torch.cuda.device_of(q):
        _forward[grid](
            q, k, v, o, lse, *documents.pointers(), *strides, heads, documents.tensors[0].shape[-1], tokens,
            documents.longest, documents.scale, documents.p, CAUSAL=documents.causal, DROPS=documents.p > 0, DIM=dim,
            VALUE_DIM=v.shape[-1], BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return o, lse


def backward(
    o_bar: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, documents: DocumentBounds
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values, each stored token by token like what `forward` returns."""
    batch, heads, tokens, dim = q.shape
    made = [t.new_empty(batch, t.shape[2], heads, t.shape[-1]).transpose(1, 2) for t in (q, k, v)]
    grid, block, warps = documents.launch(heads)
    read = (q, k, v, o, lse, *documents.pointers(), o_bar)
    strides = [each for t in (q, k, v, o_bar) for each in t.stride()[:3]]
    numbers = (documents.longest, documents.scale, documents.p)
    sizes = {"DIM": dim, "VALUE_DIM": v.shape[-1], "BLOCK": block, "num_warps": warps}
    sizes |= {"CAUSAL": documents.causal, "DROPS": documents.p > 0}
    one, length = documents.longest <= block, documents.tensors[0].shape[-1]
    with torch.cuda.device_of(q):
        _backward[grid](*read, *made, *strides, heads, length, tokens, k.shape[2], *numbers, **sizes, ONE=one)
        if not one:
            _query_backward[grid](*read, made[0], *strides, heads, length, tokens, *numbers, **sizes)
    return made[0], made[1], made[2]
