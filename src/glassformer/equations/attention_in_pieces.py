"""How sparse attention runs fast: some queries at a time, with the keys that they reach, and never all pairs at once.

On a CPU pieces are computed one after the other from views of queries, keys and values, and once more in the backward
pass, so that nothing but inputs and outputs is kept. On a GPU all pieces are one batch of a fused kernel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from glassformer.equation import no_checks
from glassformer.equations.algebra import product_dtype
from glassformer.equations.heads import four_axes
from glassformer.equations.masks import BLOCKED, additive_mask

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # queries, keys, values, mask to outputs
ROWS = 64  # queries of a piece, where a pattern leaves it open: fewer leave a kernel too little to do


@dataclass(frozen=True)
class QueryBlock:
    """Queries, the keys they reach, in one slice or several, and which of these pairs are visible."""

    queries: slice
    keys: tuple[slice, ...]
    visible: Tensor

    def of(self, *tensors: Tensor) -> list[Tensor]:
        """The keys or values of the piece, from each tensor [batch, heads, keys, dim]."""
        return [torch.cat(parts, -2) if len(parts) > 1 else parts[0] for parts in map(self._parts, tensors)]

    def add(self, total: Tensor, found: Tensor) -> None:
        """Add the gradient of the keys or values of the piece to that of all."""
        parts = self._parts(total)
        for part, gradient in zip(parts, found.split([part.shape[-2] for part in parts], -2), strict=True):
            part.add_(gradient)

    def _parts(self, tensor: Tensor) -> list[Tensor]:
        return [tensor[:, :, keys] for keys in self.keys]

    def mask(self, padding: Tensor | None, like: Tensor) -> Tensor:
        """The additive mask of the piece, with that of all keys [batch, 1, 1, keys] where there is one."""
        own = additive_mask.fn(self.visible, dtype=like.dtype)
        return own if padding is None else own + torch.cat([padding[..., keys] for keys in self.keys], -1)


QueryBlocks = Sequence[QueryBlock]


def in_pieces(
    attend: Attend, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, pieces: Sequence[QueryBlock]
) -> Tensor:
    """Attention of all queries, piece by piece; `mask` is that of the keys, as `key_mask` returns it."""
    o = _InPieces.apply(attend, four_axes(q), four_axes(k), four_axes(v), mask, pieces)
    return o.reshape(*q.shape[:-1], v.shape[-1])  # pyright: ignore[reportOptionalMemberAccess]


class _InPieces(torch.autograd.Function):
    """Attention piece by piece; the backward pass computes each piece again, with the gradient of its kernel."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        attend: Attend,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        pieces: Sequence[QueryBlock],
    ) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.rest = attend, mask, pieces  # pyright: ignore[reportAttributeAccessIssue]
        o = q.new_empty(*q.shape[:-1], v.shape[-1])
        for piece in pieces:
            keys, values = piece.of(k, v)
            o[:, :, piece.queries] = attend(q[:, :, piece.queries], keys, values, piece.mask(mask, q))
        return o

    @staticmethod
    def backward(ctx: FunctionCtx, o_bar: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v = ctx.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        attend, mask, pieces = ctx.rest  # pyright: ignore[reportAttributeAccessIssue]
        q_bar, k_bar, v_bar = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for piece in pieces:
            inputs = [t.detach().requires_grad_() for t in (q[:, :, piece.queries], *piece.of(k, v))]
            with torch.enable_grad(), no_checks():
                o = attend(*inputs, piece.mask(mask, q))
            found = torch.autograd.grad(o, inputs, o_bar[:, :, piece.queries])
            q_bar[:, :, piece.queries] = found[0]
            piece.add(k_bar, found[1])
            piece.add(v_bar, found[2])
        return None, q_bar, k_bar, v_bar, None, None


def blocks_first(t: Tensor) -> Tensor:
    """Blocks as rows of a batch: [batch, heads, blocks, seq, dim] to [batch · blocks, heads, seq, dim]."""
    return t.transpose(1, 2).flatten(0, 1)


def as_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors as a fused kernel would get them: under autocast in its dtype, since a backward pass is outside."""
    return tuple(t.to(product_dtype(t)) for t in tensors)


def key_mask(mask: Tensor | None, q: Tensor) -> Tensor | None:
    """A mask of keys alone, such as padding, as an additive one [batch, 1, 1, keys]; None where there is no mask."""
    if mask is None:
        return None
    allowed = mask if mask.dtype == torch.bool else mask > BLOCKED
    added = torch.zeros_like(mask, dtype=q.dtype) if mask.dtype == torch.bool else mask.to(q.dtype)
    return four_axes(torch.where(allowed, added, -torch.inf))


def masks_keys_alone(mask: Tensor | None, q: Tensor, keys: int) -> bool:
    """Whether a mask is the same for all queries and heads, or there is none; learned masks are not cut into pieces."""
    if mask is None:
        return True
    queries, heads = (mask.dim() < -axis or mask.shape[axis] == 1 for axis in (-2, -3))
    batch = mask.dim() < 4 or q.dim() == 4
    return queries and heads and batch and mask.shape[-1] == keys and not mask.requires_grad
