"""Coarser weights: whole numbers of eight or four bits with a scale for each row or group of a row."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.ranges import same_dtype, whole

_BIAS = "shift"


def quantize_rows(W: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Whole numbers from −levels to levels, and the scale [..., 1] that turns each row back into itself, nearly."""
    s = W.abs().amax(-1, keepdim=True).float() / levels
    s = torch.where(s > 0, s, 1.0)
    return (W.float() / s).round().clamp(-levels, levels).to(torch.int8), s


def pack_nibbles(q: Tensor) -> Tensor:
    """Two numbers from −8 to 7 in each byte: of a row of 2n the first n lie in the low halves."""
    low, high = (part.to(torch.int16) for part in q.chunk(2, -1))
    both = (low & 15) | ((high & 15) << 4)
    return torch.where(both > 127, both - 256, both).to(torch.int8)


def unpack_nibbles(packed: Tensor) -> Tensor:
    """The numbers that were packed."""
    return torch.cat([((packed & 15) ^ 8) - 8, packed // 16], -1)


@equation(
    r"y = (x W^\top) \odot s + b, \quad W \in \{-127, \dots, 127\}",
    meaning="Weights are whole numbers of eight bits, and each output is scaled back at the end.",
    intuition="A map drawn on squared paper: every point on a crossing, and the scale in the corner.",
    symbols={
        "x": "rows going in",
        "W": "weights as whole numbers, one row per output",
        "s": "scale of each output",
        "b": _BIAS,
        "y": "rows coming out",
    },
    flops=lambda rows, inputs, outputs, b: 2 * rows * inputs * outputs + rows * outputs * (1 if b is None else 2),
    where={"x s b": same_dtype},
)
def int8_linear(
    x: Float[Tensor, "*rows inputs"],
    W: Int[Tensor, "outputs inputs"],
    s: Float[Tensor, " outputs"],
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*rows outputs"]:
    """Map rows through a matrix of eight-bit weights with a scale for each output (Dettmers et al., 2022)."""
    y = (x @ W.to(x.dtype).T) * s
    return y if b is None else y + b


@int8_linear.def_gradient(
    r"\bar x = (\bar y \odot s) W, \quad \bar s = \textstyle\sum \bar y \odot x W^\top, \quad \bar b = \sum \bar y"
)
def _int8_linear_gradient(
    y_bar: Tensor, x: Tensor, W: Tensor, s: Tensor, b: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    rows = y_bar.reshape(-1, len(s))
    products = (x @ W.to(x.dtype).T).reshape(-1, len(s))
    return (y_bar * s) @ W.to(x.dtype), (rows * products).sum(0), None if b is None else rows.sum(0)


@equation(
    r"y = x (s_g Q)^\top + b, \quad Q \in \{-8, \dots, 7\}",
    meaning="Weights are whole numbers of four bits, two to a byte, with a scale for each group in a row.",
    intuition="A map in many small sheets, each drawn coarsely, each with a scale of its own.",
    symbols={
        "x": "rows going in",
        "W": "weights Q packed two to a byte, one row per output",
        "s": "scale of each group of inputs, for every output",
        "b": _BIAS,
        "y": "rows coming out",
    },
    flops=lambda rows, inputs, outputs, b: (
        2 * rows * inputs * outputs + inputs * outputs + (0 if b is None else rows * outputs)
    ),
)
def int4_linear(
    x: Float[Tensor, "*rows inputs"],
    W: Int[Tensor, "outputs bytes"],
    s: Float[Tensor, "outputs groups"],
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*rows outputs"]:
    """Map rows through a matrix of four-bit weights with a scale for each group (Frantar et al., 2023)."""
    y = x @ _from_nibbles(W, s).T
    return y if b is None else y + b


@int4_linear.def_gradient(
    r"\bar x = \bar y (s_g Q), \quad \bar s_g = \textstyle\sum_{i \in g} Q_i (\bar y^\top x)_i, \quad"
    r" \bar b = \sum \bar y"
)
def _int4_linear_gradient(
    y_bar: Tensor, x: Tensor, W: Tensor, s: Tensor, b: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    rows = y_bar.reshape(-1, len(s))
    weight_bar = rows.T @ x.reshape(-1, x.shape[-1]) * unpack_nibbles(W).to(x.dtype)
    return (
        y_bar @ _from_nibbles(W, s),
        weight_bar.unflatten(-1, (s.shape[1], -1)).sum(-1),
        None if b is None else rows.sum(0),
    )


@int4_linear.def_check
def _int4_linear_check(x: Tensor, W: Tensor, s: Tensor, b: Tensor | None) -> None:
    int4_linear.require_type("x", x, s=s, b=b)
    int4_linear.require(2 * W.shape[1] == x.shape[-1], "W", f"of shape {list(W.shape)}", "two inputs of x to a byte")
    whole(int4_linear.require, 1, groups=s.shape[1])
    even_share = x.shape[-1] % s.shape[1] == 0
    int4_linear.require(even_share, "s", f"of shape {list(s.shape)}", f"groups that divide the {x.shape[-1]} inputs")


def _from_nibbles(W: Tensor, s: Tensor) -> Tensor:
    q = unpack_nibbles(W).to(s.dtype)
    return (q.unflatten(-1, (s.shape[1], -1)) * s[..., None]).flatten(-2)
