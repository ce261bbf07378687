"""Fast forms of equations on a CPU: products by the faster library, attention with dropout some queries at a time.

They take the place of the fused forms that stand under the equations, and fall back to them.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from glassformer.equations.algebra import linear
from glassformer.equations.attention import dropout_attention
from glassformer.equations.embedding import unembed
from glassformer.equations.heads import repeat_kv
from glassformer.equations.regularization import kept_of, random_words
from glassformer.torch_private import onednn_is_faster, onednn_linear

LEAST_PRODUCT = 2**22  # multiplications of a product: for fewer, finding the kernel takes longer than it saves
QUERIES = 64  # of causal attention that are computed together, with the keys up to the last of them
dropout_attention_fused = dropout_attention.kernel


@linear.def_fused
def affine(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """x W + b, by oneDNN where that is faster than `functional.linear`."""
    if not _suits_onednn(x, W):
        return functional.linear(x, W.T, b)
    if torch.is_grad_enabled():
        return _Affine.apply(x, W, b)  # pyright: ignore[reportReturnType]
    return onednn_linear(x, W.T, b)


unembed.def_fused(lambda h, E: affine(h, E.T))


def _suits_onednn(x: Tensor, W: Tensor) -> bool:
    large = x.numel() * W.shape[1] >= LEAST_PRODUCT
    return large and W.dtype == torch.float32 and _exact(x) and onednn_is_faster()


def _exact(x: Tensor) -> bool:
    """Whether this is computed now, on a CPU and in float32."""
    kind = x.is_cpu and x.dtype == torch.float32
    return kind and not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu")


class _Affine(torch.autograd.Function):
    """An affine map by oneDNN, whose gradients are such maps too."""

    @staticmethod
    def forward(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """x W + b."""
        return onednn_linear(x, W.T, b)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        """Keep what the gradients are products of."""
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: FunctionCtx, y_bar: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The gradients of those that need one."""
        x, W = ctx.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        for_x, for_weight, for_bias = ctx.needs_input_grad  # pyright: ignore[reportAttributeAccessIssue]
        inputs, outputs = x.reshape(-1, W.shape[0]), y_bar.reshape(-1, W.shape[1])
        x_bar = affine(y_bar, W.T) if for_x else None
        return x_bar, affine(inputs.T, outputs) if for_weight else None, outputs.sum(0) if for_bias else None


@dropout_attention.def_fused
def _dropout_attention_on_cpu(  # noqa: PLR0913, PLR0917 - attention has these inputs
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    p: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    uneven = causal and q.shape[-2] != k.shape[-2]
    if mask is not None or bias is not None or softcap is not None or uneven or not _exact(q):
        return dropout_attention_fused(q, k, v, mask, bias, causal, scale, softcap, p, generator)
    if k.shape[:-2] != q.shape[:-2]:
        k, v = repeat_kv.fn(k, q.shape[-3]), repeat_kv.fn(v, q.shape[-3])
    rows = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
    shape = torch.Size([q.shape[:-2].numel(), q.shape[-2], k.shape[-2]])
    words = random_words(shape, generator)  # in the order of the formula
    o = _DropoutAttention.apply(*rows, words, causal, q.shape[-1] ** -0.5 if scale is None else scale, p)
    return o.view(*q.shape[:-1], v.shape[-1])  # pyright: ignore[reportOptionalMemberAccess]


class _DropoutAttention(torch.autograd.Function):
    """Attention with dropout, some queries at a time; what is kept are attention weights and dropout masks."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor, words: Tensor, causal: bool, scale: float, p: float
    ) -> Tensor:
        """The outputs [batch, queries, value_dim]; `words` are random bits for each query and key."""
        o, weights = q.new_empty(*q.shape[:2], v.shape[2]), []
        for at, keys in _pieces(q, k, causal):
            a = _scores(q[:, at], k[:, keys], scale, at if causal else None).softmax(-1)
            m = kept_of(words[:, at, keys], p)
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
        future = torch.full((q.shape[1], k.shape[1] - at.start), -torch.inf).triu_(1)
        s[..., at.start :].add_(future)
    return s
