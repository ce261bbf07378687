"""Block-sparse attention: each block of queries with its own keys and one summary of every earlier block."""

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
from glassformer.equations.masks import aligned_positions, position_mask, relative_positions
from glassformer.equations.ranges import optional, positive, same_dtype, whole
from glassformer.equations.softmax import softmax
from glassformer.equations.sparse_masks import block_sparse_mask


@equation(
    r"O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V, \quad"
    r" M_{ij} = \begin{cases} 0 & j \le p_i \text{ and }"
    r" (\lfloor j / b \rfloor = \lfloor p_i / b \rfloor \text{ or } j \bmod b = b - 1)"
    r" \\ -\infty & \text{otherwise} \end{cases}",
    meaning="A query attends to its own block so far, and of every earlier block to the last key, its summary.",
    intuition="Reading this chapter word by word, and of the chapters before only their closing lines.",
    symbols={
        "q=Q": "queries",
        "k=K": "keys",
        "v=V": "values",
        "b": "number of positions in a block",
        "mask=": "added to the scores as well, or true where a query attends to a key: padding, for instance",
        "scale=": "factor; one over the root of d_k if not given",
        "softcap=": "soft cap of the scores",
        "o=O": "outputs",
    },
    names={"q": "queries", "k": "keys", "v": "values", "o": "outputs"},
    where={"q k v": same_dtype, "b": whole, "softcap": optional(positive)},
)
def block_attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*kv_batch keys head_dim"],
    v: Float[Tensor, "*kv_batch keys value_dim"],
    b: int,
    mask: Float[Tensor, "*#batch #queries #keys"] | Bool[Tensor, "*#batch #queries #keys"] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Float[Tensor, "*batch queries value_dim"]:
    """Causal attention by the fixed pattern of Child et al. (2019)."""
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv(k, q.shape[-3]), repeat_kv(v, q.shape[-3])
    s = attention_scores(q, k, scale)
    if softcap is not None:
        s = soft_cap(s, softcap)
    s = apply_mask(s, block_sparse_mask(q.shape[-2], k.shape[-2], b, dtype=q.dtype, device=q.device))
    return weighted_sum(softmax(s if mask is None else apply_mask(s, mask)), v)


@block_attention.def_fused
def _block_attention_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    b: int,
    mask: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    queries, keys = q.shape[-2], k.shape[-2]
    long = queries > 2 * attention_in_pieces.ROWS and keys >= queries and 1 < b < keys // 2
    if not long or not masks_keys_alone(mask, q, keys):
        pattern = block_sparse_mask.fn(queries, keys, b, dtype=q.dtype, device=q.device)
        added = pattern if mask is None else apply_mask.fn(pattern.expand(*mask.shape[:-2], *pattern.shape), mask)
        return attention.kernel(q, k, v, added, None, False, scale, softcap)
    q, k, v = as_autocast(q, k, v)
    if q.device.type == "cpu" and not torch.compiler.is_compiling():
        pieces = list(_pieces(queries, keys, b, q.device))
        return in_pieces(
            partial(attention.kernel, bias=None, causal=False, scale=scale, softcap=softcap),
            q,
            k,
            v,
            key_mask(mask, q),
            pieces,
        )
    o = _batched(four_axes(q), four_axes(k), four_axes(v), b, key_mask(mask, q), scale, softcap)
    return o.reshape(*q.shape[:-1], v.shape[-1])


@block_attention.def_check
def _block_attention_check(q: Tensor, k: Tensor, v: Tensor) -> None:
    require_attention(block_attention.require, q, k, v)


def _pieces(queries: int, keys: int, b: int, device: torch.device) -> Iterator[QueryBlock]:
    """Some blocks of queries with the keys of these blocks, and the last key of each block before them."""
    offset, rows = keys - queries, max(attention_in_pieces.ROWS // b, 1) * b
    i, j = aligned_positions(rows, rows, device)
    inside = position_mask.fn(relative_positions.fn(i, j), j, block=b)
    for start in range(offset // b * b, keys, rows):
        first, end = max(start, offset), min(start + rows, keys)
        visible = inside[first - start : end - start, : end - start]
        if not start:
            yield QueryBlock(slice(first - offset, end - offset), (slice(0, end),), visible)
            continue
        both = functional.pad(visible, (0, start // b), value=True)
        yield QueryBlock(slice(first - offset, end - offset), (slice(start, end), slice(b - 1, start, b)), both)


def _batched(
    q: Tensor, k: Tensor, v: Tensor, b: int, mask: Tensor | None, scale: float | None, softcap: float | None
) -> Tensor:
    """The same as one batch of a fused kernel, for a GPU: every block of queries with its block and all summaries."""
    queries, keys = q.shape[2], k.shape[2]
    offset, end = keys - queries, -keys % b
    before, start = offset // b, offset % b  # whole blocks before the first query, and keys of its own block
    asked = functional.pad(q, (0, 0, start, end)).unflatten(2, (-1, b))
    count, number = asked.shape[2], torch.arange(asked.shape[2], device=q.device)
    own = [functional.pad(t[:, :, before * b :], (0, 0, 0, end)).unflatten(2, (-1, b)) for t in (k, v)]
    summaries = [t[:, :, b - 1 :: b, None].transpose(2, 3).expand(-1, -1, count, -1, -1) for t in (k, v)]
    reached, values = (torch.cat(parts, 3) for parts in zip(own, summaries, strict=True))
    total = summaries[0].shape[3]
    triangle = torch.ones(b, b, dtype=torch.bool, device=q.device).tril().expand(count, -1, -1)
    earlier = torch.arange(total, device=q.device) < before + number[:, None]
    visible = torch.cat([triangle, earlier[:, None].expand(-1, b, -1)], -1)[None, :, None]
    padding = 0.0
    if mask is not None:
        blocks = functional.pad(mask[..., before * b :], (0, end)).unflatten(3, (-1, b)).permute(0, 3, 1, 2, 4)
        padding = torch.cat([blocks, mask[:, None, ..., b - 1 :: b].expand(-1, count, -1, -1, -1)], -1)
    added = torch.where(visible, padding, -torch.inf).to(q.dtype).expand(len(q), -1, -1, -1, -1)
    asked, reached, values, added = (blocks_first(t) for t in (asked, reached, values, added.transpose(1, 2)))
    o = attention.kernel(asked, reached, values, added, None, False, scale, softcap)
    return o.unflatten(0, (-1, count)).transpose(1, 2).flatten(2, 3)[:, :, start : start + queries]
