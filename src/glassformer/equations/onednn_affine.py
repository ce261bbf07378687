"""The affine map x W + b in float32 on a CPU: in training by oneDNN, where its products are faster than torch's own."""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from glassformer.onednn import onednn_is_faster, onednn_linear

LEAST_PRODUCT = 2**22  # multiplications of a product: for fewer, finding the kernel takes longer than it saves


def affine(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """x W + b; where gradients are recorded, as `training_affine` computes it."""
    return training_affine(x, W, b) if torch.is_grad_enabled() else functional.linear(x, W.T, b)


def training_affine(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """x W + b, by oneDNN where that is faster than `functional.linear`.

    For training, which repeats its sizes: oneDNN keeps a kernel in memory for every number of rows that it has seen.
    """
    if not _suits_onednn(x, W):
        return functional.linear(x, W.T, b)
    if torch.is_grad_enabled():
        return _Affine.apply(x, W, b)  # pyright: ignore[reportReturnType]
    return onednn_linear(x, W.T, b)


def _suits_onednn(x: Tensor, W: Tensor) -> bool:
    if type(x) not in (Tensor, nn.Parameter):
        return False  # a tensor without contents: a recording is the same on every machine
    if not eager_float32_on_cpu(x) or W.dtype != torch.float32:
        return False  # before sizes are compared: the compiler would make a program for either result
    dense = W.is_contiguous() or W.T.is_contiguous()  # for other strides oneDNN has only its reference product
    return dense and x.numel() * W.shape[1] >= LEAST_PRODUCT and onednn_is_faster()


def eager_float32_on_cpu(x: Tensor) -> bool:
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
        x_bar = training_affine(y_bar, W.T) if for_x else None
        W_bar = training_affine(inputs.T, outputs) if for_weight else None
        return x_bar, W_bar, outputs.sum(0) if for_bias else None
