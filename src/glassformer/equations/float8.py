"""Linear layers whose products are of 8-bit floats, for training: scaled per tensor, with float32 master weights."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from glassformer.arithmetic import dot, factor, number, total
from glassformer.equation import equation
from glassformer.equations.algebra import add, linear, product_dtype
from glassformer.equations.ranges import Require, same_dtype
from glassformer.torch_private import has_scaled_mm, scaled_mm

E4M3 = torch.float8_e4m3fn  # 4 bits of exponent, 3 of mantissa: finer, for inputs and weights
E5M2 = torch.float8_e5m2  # a wider range, for gradients
MULTIPLE = 16  # sizes of a matrix that the fused product takes
LEAST = 2.0**-100  # a smaller largest number counts as this, so that zeros have a scale
EXPONENT = 0x7F800000  # the bits of a float32 that are its exponent: alone they are a power of two
EXACT = (torch.float32, torch.bfloat16, torch.float16)  # what the fused product gives


def to_float8(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Numbers as 8-bit floats, and the power of two that scales them back.

    It is the least with which the largest number fits. Powers of two round nothing, so that x̂ is exact in bfloat16 and
    float32, up to the largest powers of two.
    """
    most = x.abs().amax(-1).amax().float()  # in two steps: the first shares a compiled kernel with what made the rows
    multiplier = (torch.finfo(dtype).max / most.clamp(min=LEAST)).view(torch.int32)
    multiplier = multiplier.bitwise_and(EXPONENT).view(torch.float32)
    return (x.float() * multiplier).to(dtype), multiplier.reciprocal()


def _not_empty(require: Require, /, **tensors: Tensor) -> None:
    for symbol, tensor in tensors.items():
        require(
            tensor.numel() > 0, symbol, f"of shape {list(tensor.shape)}", "at least one number, which sets the scale"
        )


def _rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    q, s = to_float8(x, dtype)
    return (q.float() * s).to(x.dtype)


@equation(
    r"\hat x = s \cdot \mathrm{e4m3}\!\left(\frac{x}{s}\right), \quad s = 2^{-\lfloor \log_2 (448 / \max |x|) \rfloor},"
    r" \quad \text{with the gradient of } \hat x = x",
    meaning="Numbers are scaled so that the largest fits into 8 bits, rounded to three bits of mantissa, scaled back.",
    intuition="A photograph with the exposure set to its brightest point, then kept in a few tones.",
    symbols={"x": "numbers", r"x_hat=\hat x": "the same, rounded to 8-bit floats, x̂"},
    names={"x_hat": "rounded"},
    flops=lambda batch, dim: 6 * batch * dim + batch + 4,
    where={"x": _not_empty},
)
def fake_quantize_float8(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Round to 8-bit floats (Micikevicius et al., 2022), with the straight-through estimator as gradient."""
    return _rounded(x, E4M3).detach() + (x - x.detach())  # the second term is zero and carries the gradient


fake_quantize_float8.def_gradient(r"\bar x = \bar{\hat x}")(lambda x_hat_bar: x_hat_bar)


@fake_quantize_float8.def_cell
def _fake_quantize_float8_cell(index: tuple[int, ...], x: Tensor) -> str:
    q, s = to_float8(x, E4M3)
    return f"{number(s, 12)}·{factor(q.float()[index], 12)}"


class _RoundGradient(torch.autograd.Function):
    """Nothing forward, and gradients as 8-bit floats backward."""

    @staticmethod
    def forward(ctx: FunctionCtx, y: Tensor) -> Tensor:
        """The same numbers."""
        return y.clone()

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> Tensor:
        """The gradient, rounded."""
        return _rounded(gradients[0], E5M2)


@equation(
    r"z = y, \quad \text{with the gradient } \bar y = s \cdot \mathrm{e5m2}\!\left(\frac{\bar z}{s}\right), \;"
    r" s = 2^{-\lfloor \log_2 (57344 / \max |\bar z|) \rfloor}",
    meaning="Numbers pass; their gradient is rounded to 8-bit floats with five bits of exponent on its way back.",
    intuition="A one-way mirror: clear from the front, tinted from behind.",
    symbols={"y": "numbers", "z": "the same"},
    names={"z": "passed"},
    flops=lambda: 0,
    where={"y": _not_empty},
)
def quantize_gradient_float8(y: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Round the gradient to 8-bit floats, which need the wider range of e5m2 (Micikevicius et al., 2022)."""
    if not (torch.is_grad_enabled() and y.requires_grad):
        return y.clone()
    z: Tensor = _RoundGradient.apply(y)  # pyright: ignore[reportAssignmentType]
    return z


@quantize_gradient_float8.def_gradient(r"\bar y = s \cdot \mathrm{e5m2}(\bar z / s)")
def _quantize_gradient_float8_gradient(z_bar: Tensor) -> Tensor:
    return _rounded(z_bar, E5M2)


quantize_gradient_float8.def_cell(lambda index, y: number(y[index]))


@equation(
    r"y = \mathrm{fp8}(x) \, \mathrm{fp8}(W) + b",
    meaning="A linear layer that multiplies 8-bit floats, forward and backward; sums and weights stay precise.",
    intuition="A builder who measures every plank with a coarse rule, and writes the totals down exactly.",
    symbols={"x": "input vectors", "W": "weights, one column per output", "b": "bias", "y": "output vectors"},
    where={"x W b": same_dtype, "x W": _not_empty},
)
def float8_linear(
    x: Float[Tensor, "*batch inputs"],
    W: Float[Tensor, "inputs outputs"],
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """Multiply by a weight matrix in 8-bit floats, each tensor with its own scale (Micikevicius et al., 2022)."""
    y = quantize_gradient_float8(linear(fake_quantize_float8(x), fake_quantize_float8(W)))
    return y if b is None else add(y, b)


@float8_linear.def_gradient(
    r"\bar x = \mathrm{fp8}(\bar y) \, \mathrm{fp8}(W)^\top, \quad"
    r" \bar W = \mathrm{fp8}(x)^\top \, \mathrm{fp8}(\bar y), \quad \bar b = \textstyle\sum \bar y"
)
def _float8_linear_gradient(
    y_bar: Tensor, x: Tensor, W: Tensor, b: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    rounded = _rounded(y_bar, E5M2)
    inputs, outputs = _rounded(x, E4M3).reshape(-1, W.shape[0]), rounded.reshape(-1, W.shape[1])
    return rounded @ _rounded(W, E4M3).T, inputs.T @ outputs, None if b is None else y_bar.reshape(outputs.shape).sum(0)


@float8_linear.def_cell
def _float8_linear_cell(index: tuple[int, ...], x: Tensor, W: Tensor, b: Tensor | None) -> str:
    text = dot(_rounded(x, E4M3)[index[:-1]], _rounded(W, E4M3)[:, index[-1]])
    return text if b is None else total([text, number(b[index[-1]])], [])


@float8_linear.def_fused
def _float8_linear_fused(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    dtype = product_dtype(x)
    if dtype not in EXACT or not fits_float8(W) or not has_scaled_mm(x.device.type, x.device.index):
        return float8_linear.fn(x, W, b)
    y: Tensor = _Float8Linear.apply(x.reshape(-1, len(W)), W, b, dtype)  # pyright: ignore[reportAssignmentType]
    return y.reshape(*x.shape[:-1], -1)


def fits_float8(W: Tensor) -> bool:
    """Whether the fused product takes a weight matrix: multiples of 16 inputs and outputs."""
    return W.shape[0] % MULTIPLE == 0 and W.shape[1] % MULTIPLE == 0


class _Float8Linear(torch.autograd.Function):
    """The three products of a linear layer, each by one kernel that scales its result back."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, W: Tensor, b: Tensor | None, dtype: torch.dtype) -> Tensor:
        """The outputs; what is kept for the backward pass takes a byte for each number."""
        x8, x_scale = to_float8(x, E4M3)
        W8, W_scale = to_float8(W, E4M3)
        ctx.save_for_backward(x8, x_scale, W8, W_scale)
        ctx.dtypes = x.dtype, W.dtype, None if b is None else b.dtype  # pyright: ignore[reportAttributeAccessIssue]
        return scaled_mm(x8.contiguous(), _by_column(W8), x_scale, W_scale, dtype, b, fast=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, y_bar: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The gradients of inputs and weights in their own dtypes."""
        x8, x_scale, W8, W_scale = ctx.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        x_dtype, W_dtype, b_dtype = ctx.dtypes  # pyright: ignore[reportAttributeAccessIssue]
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad  # pyright: ignore[reportAttributeAccessIssue]
        y8, y_scale = to_float8(y_bar, E5M2)
        x_bar = scaled_mm(y8.contiguous(), W8.contiguous().T, y_scale, W_scale, x_dtype) if for_x else None
        W_bar = scaled_mm(_padded(x8.T), _padded(y8.T).T, x_scale, y_scale, W_dtype) if for_weight else None
        return x_bar, W_bar, y_bar.sum(0, dtype=b_dtype) if for_bias else None, None


def keep_products_whole() -> None:
    """Have the compiler take the products as one call first, and fuse what is inside afterwards.

    Asked for where 8-bit floats are used, because it loads the compiler, which takes a second.
    """
    torch.compiler.allow_in_graph(_Float8Linear)


def _by_column(q: Tensor) -> Tensor:
    """The same matrix, with each column contiguous in memory."""
    return q.T.contiguous().T


def _padded(q: Tensor) -> Tensor:
    """A contiguous matrix, with zeros behind its rows up to a multiple of 16."""
    extra = -q.shape[1] % MULTIPLE
    if not extra:
        return q.contiguous()
    return functional.pad(q.contiguous().view(torch.uint8), (0, extra)).view(q.dtype)  # all bits zero are a zero
