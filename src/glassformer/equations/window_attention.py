"""Sliding-window and dilated attention, whose work grows with the length of a sequence and not with its square."""

from collections.abc import Iterator
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from glassformer.equation import equation
from glassformer.equations import attention_in_pieces
from glassformer.equations.attention import (
    apply_mask,
    attention,
    attention_scores,
    require_attention,
    soft_cap,
    weighted_sum,
)
from glassformer.equations.attention_in_pieces import (
    QueryBlock,
    as_autocast,
    blocks_first,
    in_pieces,
    key_mask,
    masks_keys_alone,
)
from glassformer.equations.heads import four_axes, repeat_kv
from glassformer.equations.masks import in_window
from glassformer.equations.ranges import optional, positive, same_dtype, whole
from glassformer.equations.softmax import softmax
from glassformer.equations.sparse_masks import dilated_mask, sliding_window_mask
from glassformer.torch_private import flash_window

ALIGNED = 16  # keys that a fused kernel reads at once


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V, \quad"
    r" M_{ij} = \begin{cases} 0 & p_i - j \in \{0, d, 2d, \dots, (w - 1) d\} \\ -\infty & \text{otherwise} \end{cases}",
    meaning="Each query attends to the last few keys only: the work grows with the length, not with its square.",
    intuition="Reading through a slot in a card that slides along the line.",
    symbols={
        "q=Q": "queries",
        "k=K": "keys",
        "v=V": "values",
        "w": "window: number of keys that a query attends to, itself included",
        "d": "dilation: steps from one key of the window to the next",
        "mask=": "added to the scores as well, or true where a query attends to a key: padding, for instance",
        "scale=": "factor; one over the root of d_k if not given",
        "softcap=": "soft cap of the scores",
        "o=O": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
    where={"q k v": same_dtype, "w d": whole, "softcap": optional(positive)},
)
def window_attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*kv_batch keys head_dim"],
    v: Float[Tensor, "*kv_batch keys value_dim"],
    w: int,
    d: int = 1,
    mask: Float[Tensor, "*#batch #queries #keys"] | Bool[Tensor, "*#batch #queries #keys"] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Causal attention through a sliding or dilated window (Beltagy et al., 2020)."""
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv(k, q.shape[-3]), repeat_kv(v, q.shape[-3])
    s = attention_scores(q, k, scale)
    if softcap is not None:
        s = soft_cap(s, softcap)
    if d == 1:
        window = sliding_window_mask(q.shape[-2], k.shape[-2], w, dtype=q.dtype, device=q.device)
    else:
        window = dilated_mask(q.shape[-2], k.shape[-2], w, d, dtype=q.dtype, device=q.device)
    s = apply_mask(s, window)
    return weighted_sum(softmax(s if mask is None else apply_mask(s, mask)), v)


@window_attention.def_fused
def _window_attention_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: int,
    d: int = 1,
    mask: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    queries, keys = q.shape[-2], k.shape[-2]
    long = queries > 2 * attention_in_pieces.ROWS and keys >= queries and (w - 1) * d < keys // 2
    if not long or not masks_keys_alone(mask, q, keys):
        window = dilated_mask.fn(queries, keys, w, d, dtype=q.dtype, device=q.device)
        added = window if mask is None else apply_mask.fn(window.expand(*mask.shape[:-2], *window.shape), mask)
        return attention.kernel(q, k, v, added, None, False, scale, softcap)
    q, k, v = as_autocast(q, k, v)
    if q.device.type == "cpu" and not torch.compiler.is_compiling():
        pieces = list(_pieces(queries, keys, w, d, q.device))
        return in_pieces(
            partial(attention.kernel, bias=None, causal=False, scale=scale, softcap=softcap),
            q,
            k,
            v,
            key_mask(mask, q),
            pieces,
        )
    o = _batched(four_axes(q), four_axes(k), four_axes(v), w, d, key_mask(mask, q), scale, softcap)
    return o.reshape(*q.shape[:-1], v.shape[-1])


@window_attention.def_check
def _window_attention_check(q: Tensor, k: Tensor, v: Tensor) -> None:
    require_attention(window_attention.require, q, k, v)


def _pieces(queries: int, keys: int, w: int, d: int, device: torch.device) -> Iterator[QueryBlock]:
    """Neighboring queries with the keys before them; with a dilation, those at distances that it divides."""
    offset, rows = keys - queries, attention_in_pieces.ROWS
    seen: dict[tuple[int, int], Tensor] = {}  # pairs look the same in most pieces
    for residue in range(min(d, keys)):
        count = -(-(keys - residue) // d)  # positions residue, residue + d, residue + 2d, ...
        for first in range(max(-(-(offset - residue) // d), 0), count, rows):
            end, reached = min(first + rows, count), max(first - w + 1, 0)
            shape = (first - reached, end - first)
            if shape not in seen:
                i, j = torch.arange(first, end, device=device), torch.arange(reached, end, device=device)
                seen[shape] = in_window(j - i[:, None], w)
            asked = slice(residue + first * d - offset, residue + (end - 1) * d - offset + 1, d)
            yield QueryBlock(asked, (slice(residue + reached * d, residue + (end - 1) * d + 1, d),), seen[shape])


def _batched(
    q: Tensor, k: Tensor, v: Tensor, w: int, d: int, mask: Tensor | None, scale: float | None, softcap: float | None
) -> Tensor:
    """The same as one batch of a fused kernel; a dilated window is a sliding one over every d-th position."""
    if d > 1:
        mask = None if mask is None else mask.expand(len(q), -1, -1, -1)
        queries, start, end = q.shape[2], (k.shape[2] - q.shape[2]) % d, -k.shape[2] % d
        q, k, v = _every(functional.pad(q, (0, 0, start, end)), d), _every(k, d, end), _every(v, d, end)
        mask = None if mask is None else _every(functional.pad(mask, (0, end)).mT, d).mT
        o = _batched(q, k, v, w, 1, mask, scale, softcap)
        return o.unflatten(0, (-1, d)).movedim(1, 3).flatten(2, 3)[:, :, start : start + queries]
    if mask is None and softcap is None and (o := flash_window(q, k, v, w, scale)) is not None:
        return o
    return _in_blocks(q, k, v, w, mask, scale, softcap)


def _every(t: Tensor, d: int, end: int = 0) -> Tensor:
    """A row for each of the d residues of a position: [batch, heads, seq, dim] to [batch · d, heads, seq / d, dim]."""
    return functional.pad(t, (0, 0, 0, end)).unflatten(2, (-1, d)).movedim(3, 1).flatten(0, 1)


def _in_blocks(
    q: Tensor, k: Tensor, v: Tensor, w: int, mask: Tensor | None, scale: float | None, softcap: float | None
) -> Tensor:
    """Sliding-window attention in blocks of queries, each with the keys that its window reaches."""
    queries, block, reach = q.shape[2], max(w, attention_in_pieces.ROWS), -(-(w - 1) // ALIGNED) * ALIGNED
    count, shown = -(-queries // block), block + reach
    first = k.shape[2] - queries - reach  # the first key of the first block, negative if it is before the text
    start, end = max(-first, 0), count * block - queries
    asked = functional.pad(q, (0, 0, 0, end)).unflatten(2, (count, block))
    near = (functional.pad(t[:, :, max(first, 0) :], (0, 0, start, end)) for t in (k, v))
    keys, values = (t.unfold(2, shown, block).mT for t in near)
    key, blocks = torch.arange(shown, device=q.device), torch.arange(count, device=q.device)
    real = key >= -first - block * blocks[:, None, None]
    visible = (in_window(key - reach - key[:block, None], w) & real)[None, :, None]
    padding = 0.0
    if mask is not None:
        padding = (
            functional.pad(mask[..., max(first, 0) :], (start, end)).unfold(3, shown, block).permute(0, 3, 1, 2, 4)
        )
    added = torch.where(visible, padding, -torch.inf).to(q.dtype).expand(len(q), -1, -1, -1, -1)
    asked, keys, values, added = (blocks_first(t) for t in (asked, keys, values, added.transpose(1, 2)))
    o = attention.kernel(asked, keys, values, added, None, False, scale, softcap)
    return o.unflatten(0, (-1, count)).transpose(1, 2).flatten(2, 3)[:, :, :queries]
