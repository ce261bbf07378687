"""Attention with dropout on a CPU: some queries at a time, with the keys that they attend to."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

QUERIES = 64  # of causal attention that are computed together, with the keys up to the last of them
Draw = Callable[[slice, slice], Tensor]  # the dropout mask [batch, queries, keys] of some queries and keys


def dropout_attention_on_cpu(
    q: Tensor, k: Tensor, v: Tensor, draw: Draw, causal: bool, scale: float | None, p: float
) -> Tensor:
    """Attention with dropout on its weights, for any number of leading axes, which `draw` takes as one."""
    rows = (t.reshape(q.shape[:-2].numel(), *t.shape[-2:]) for t in (q, k, v))
    o = _DropoutAttention.apply(*rows, draw, causal, q.shape[-1] ** -0.5 if scale is None else scale, p)
    return o.view(*q.shape[:-1], v.shape[-1])  # pyright: ignore[reportOptionalMemberAccess]


class _DropoutAttention(torch.autograd.Function):
    """Attention with dropout, some queries at a time; what is kept are attention weights and dropout masks."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor, draw: Draw, causal: bool, scale: float, p: float
    ) -> Tensor:
        """The outputs [batch, queries, value_dim]."""
        o, weights = q.new_empty(*q.shape[:2], v.shape[2]), []
        for at, keys in _pieces(q, k, causal):
            a = _scores(q[:, at], k[:, keys], scale, at if causal else None).softmax(-1)
            m = draw(at, keys)
            o[:, at] = (a * m) @ v[:, keys]
            weights += [a, m]
        o.mul_(1 / (1 - p))
        ctx.save_for_backward(q, k, v, o, *weights)
        ctx.rest = causal, scale, p  # pyright: ignore[reportAttributeAccessIssue]
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, o_bar: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The gradients of queries, keys and values, from the weights as they were."""
        q, k, v, o, *weights = ctx.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        causal, scale, p = ctx.rest  # pyright: ignore[reportAttributeAccessIssue]
        q_bar, k_bar, v_bar = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        mean, o_bar = (o * o_bar).sum(-1, keepdim=True), o_bar * (1 / (1 - p))
        for (at, keys), a, m in zip(_pieces(q, k, causal), weights[::2], weights[1::2], strict=True):
            v_bar[:, keys].baddbmm_((a * m).mT, o_bar[:, at])
            s_bar = (o_bar[:, at] @ v[:, keys].mT).mul_(m).sub_(mean[:, at]).mul_(a)
            q_bar[:, at] = s_bar @ k[:, keys]
            k_bar[:, keys].baddbmm_(s_bar.mT, q[:, at], alpha=scale)
        return q_bar.mul_(scale), k_bar, v_bar, None, None, None, None


def _pieces(q: Tensor, k: Tensor, causal: bool) -> list[tuple[slice, slice]]:
    """Queries that are computed together, and the keys that they see."""
    starts = range(0, q.shape[1], QUERIES)
    return [(slice(i, i + QUERIES), slice(0, i + QUERIES if causal else k.shape[1])) for i in starts]


def _scores(q: Tensor, k: Tensor, scale: float, at: slice | None) -> Tensor:
    """Scaled inner products; with the slice of its queries, those of later keys are minus infinity."""
    s = (q * scale) @ k.mT
    if at is not None:
        size = q.shape[1], k.shape[1] - at.start
        s[..., at.start :].add_(torch.full(size, -torch.inf, dtype=s.dtype, device=s.device).triu_(1))
    return s
