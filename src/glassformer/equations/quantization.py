"""Quantized linear layers: int8 and int4 weights, with a scale per output or per group of inputs."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.ranges import same_dtype, whole


def quantize_rows(W: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Integers from −levels to levels, and the scale [..., 1] that dequantizes each row of W."""
    s = W.abs().amax(-1, keepdim=True).float() / levels
    s = torch.where(s > 0, s, 1.0)
    return (W.float() / s).round().clamp(-levels, levels).to(torch.int8), s


def pack_nibbles(q: Tensor) -> Tensor:
    """Pack two integers from −8 to 7 into each byte: of 2n the first n go into the low halves."""
    low, high = (part.to(torch.int16) for part in q.chunk(2, -1))
    both = (low & 15) | ((high & 15) << 4)
    return torch.where(both > 127, both - 256, both).to(torch.int8)


def unpack_nibbles(packed: Tensor) -> Tensor:
    """Unpack what `pack_nibbles` packed."""
    return torch.cat([((packed & 15) ^ 8) - 8, packed // 16], -1)


@equation(
    r"y = (x W^\top) \odot s + b, \quad W \in \{-127, \dots, 127\}",
    meaning="Weights are 8-bit integers, and each output is scaled back at the end.",
    intuition="A map drawn on squared paper: every point on a crossing, and the scale in the corner.",
    symbols={
        "x": "input vectors",
        "W": "weights as integers, one row per output",
        "s": "scale of each output",
        "b": "bias",
        "y": "output vectors",
    },
    flops=lambda batch, inputs, outputs, b: 2 * batch * inputs * outputs + batch * outputs * (1 if b is None else 2),
    where={"x s b": same_dtype},
)
def int8_linear(
    x: Float[Tensor, "*batch inputs"],
    W: Int[Tensor, "outputs inputs"],
    s: Float[Tensor, " outputs"],
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """Multiply by 8-bit weights with a scale for each output (Dettmers et al., 2022)."""
    y = (x @ W.to(x.dtype).T) * s
    return y if b is None else y + b


@int8_linear.def_gradient(
    r"\bar x = (\bar y \odot s) W, \quad \bar s = \textstyle\sum \bar y \odot x W^\top, \quad \bar b = \sum \bar y"
)
def _int8_linear_gradient(
    y_bar: Tensor, x: Tensor, W: Tensor, s: Tensor, b: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    flat = y_bar.reshape(-1, len(s))
    products = (x @ W.to(x.dtype).T).reshape(-1, len(s))
    return (y_bar * s) @ W.to(x.dtype), (flat * products).sum(0), None if b is None else flat.sum(0)


@equation(
    r"y = x (s_g Q)^\top + b, \quad Q \in \{-8, \dots, 7\}",
    meaning="Weights are 4-bit integers, two to a byte, with a scale for each group of inputs.",
    intuition="A map in many small sheets, each drawn coarsely, each with its own scale.",
    symbols={
        "x": "input vectors",
        "W=Q": "weights Q packed two to a byte, one row per output",
        "s": "scale of each group of inputs, for every output",
        "b": "bias",
        "y": "output vectors",
    },
    flops=lambda batch, inputs, outputs, b: (
        2 * batch * inputs * outputs + inputs * outputs + (0 if b is None else batch * outputs)
    ),
    where={"x s b": same_dtype},
)
def int4_linear(
    x: Float[Tensor, "*batch inputs"],
    W: Int[Tensor, "outputs bytes"],
    s: Float[Tensor, "outputs groups"],
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """Multiply by 4-bit weights with a scale for each group of inputs (Frantar et al., 2023)."""
    y = x @ _from_nibbles(W, s).T
    return y if b is None else y + b


@int4_linear.def_gradient(
    r"\bar x = \bar y (s_g Q), \quad \bar s_g = \textstyle\sum_{i \in g} Q_i (\bar y^\top x)_i, \quad"
    r" \bar b = \sum \bar y"
)
def _int4_linear_gradient(
    y_bar: Tensor, x: Tensor, W: Tensor, s: Tensor, b: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    flat = y_bar.reshape(-1, len(s))
    weight_bar = flat.T @ x.reshape(-1, x.shape[-1]) * unpack_nibbles(W).to(x.dtype)
    return (
        y_bar @ _from_nibbles(W, s),
        weight_bar.unflatten(-1, (s.shape[1], -1)).sum(-1),
        None if b is None else flat.sum(0),
    )


@int4_linear.def_check
def _int4_linear_check(x: Tensor, W: Tensor, s: Tensor) -> None:
    int4_linear.require(2 * W.shape[1] == x.shape[-1], "W", f"of shape {list(W.shape)}", "two inputs of x to a byte")
    whole(int4_linear.require, groups=s.shape[1])
    divides = x.shape[-1] % s.shape[1] == 0
    int4_linear.require(divides, "s", f"of shape {list(s.shape)}", f"groups that divide the {x.shape[-1]} inputs")


def _from_nibbles(W: Tensor, s: Tensor) -> Tensor:
    q = unpack_nibbles(W).to(s.dtype)
    return (q.unflatten(-1, (s.shape[1], -1)) * s[..., None]).flatten(-2)
