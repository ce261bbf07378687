"""Linear maps, and sums and products entry by entry."""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import dot, number, times, total
from glassformer.equation import equation
from glassformer.equations.onednn_affine import affine
from glassformer.equations.ranges import same_dtype


@equation(
    r"y = x W + b",
    meaning="Every output is a weighted sum of all inputs, plus a bias.",
    intuition="A mixing desk: each output channel has its own slider for every input channel.",
    symbols={"x": "input vectors", "W": "weights, one column per output", "b": "bias", "y": "output vectors"},
    flops=lambda batch, inputs, outputs, b: 2 * batch * inputs * outputs + (0 if b is None else batch * outputs),
    where={"x W b": same_dtype},
)
def linear(
    x: Float[Tensor, "*batch inputs"],
    W: Float[Tensor, "inputs outputs"],
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """Multiply each vector by a weight matrix and add a bias; all vectors share the same matrix."""
    y = x @ W
    return y if b is None else y + b


linear.def_fused(affine)


@linear.def_gradient(r"\bar x = \bar y W^\top, \quad \bar W = x^\top \bar y, \quad \bar b = \textstyle\sum \bar y")
def _linear_gradient(y_bar: Tensor, x: Tensor, W: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    inputs, outputs = x.reshape(-1, W.shape[0]), y_bar.reshape(-1, W.shape[1])
    return y_bar @ W.T, inputs.T @ outputs, None if b is None else outputs.sum(0)


@linear.def_cell
def _linear_cell(index: tuple[int, ...], x: Tensor, W: Tensor, b: Tensor | None) -> str:
    text = dot(x[index[:-1]], W[:, index[-1]])
    return text if b is None else total([text, number(b[index[-1]])], [])


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype of matrix products of a tensor: that of autocast where it is on, else its own."""
    half = not x.is_meta and torch.is_autocast_enabled(x.device.type)
    return torch.get_autocast_dtype(x.device.type) if half else x.dtype


@equation(
    r"y = a + b",
    meaning="Two tensors are added entry by entry.",
    intuition="Two sheets of glass laid on each other: what is written on both shows through.",
    symbols={"a": "first term", "b": "second term", "y": "sum"},
    names={"y": "sum"},
    flops=lambda shape: shape,
)
def add(a: Float[Tensor, "*#shape"], b: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """Add, broadcasting along axes of size one."""
    return a + b


add.def_gradient(r"\bar a = \bar y, \quad \bar b = \bar y")(lambda y_bar: (y_bar, y_bar))


@add.def_cell
def _add_cell(index: tuple[int, ...], a: Tensor, b: Tensor) -> str:
    a, b = torch.broadcast_tensors(a, b)
    return total([number(a[index]), number(b[index])], [])


@equation(
    r"y = a \odot b",
    meaning="Two tensors are multiplied entry by entry.",
    intuition="A gate: one tensor says how much of the other may pass.",
    symbols={"a": "first factor", "b": "second factor", "y": "product"},
    names={"y": "product"},
    flops=lambda shape: shape,
)
def multiply(a: Float[Tensor, "*#shape"], b: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """Multiply entry by entry, broadcasting along axes of size one (Hadamard product)."""
    return a * b


@multiply.def_gradient(r"\bar a = \bar y \odot b, \quad \bar b = \bar y \odot a")
def _multiply_gradient(y_bar: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return y_bar * b, y_bar * a


@multiply.def_cell
def _multiply_cell(index: tuple[int, ...], a: Tensor, b: Tensor) -> str:
    a, b = torch.broadcast_tensors(a, b)
    return times(a[index], b[index])


@equation(
    r"y = c \, x",
    meaning="Every entry is multiplied by the same number.",
    intuition="Turning one volume knob for the whole orchestra.",
    symbols={"x": "tensor", "c": "the number", "y": "scaled tensor"},
    flops=lambda shape: shape,
)
def scale(x: Float[Tensor, "*shape"], c: float) -> Float[Tensor, "*shape"]:
    """Multiply a tensor by a number."""
    return x * c


scale.def_gradient(r"\bar x = c \, \bar y")(lambda y_bar, c: y_bar * c)
scale.def_cell(lambda index, x, c: times(c, x[index]))


@equation(
    r"h_{l+1} = h_l + \alpha F(h_l)",
    meaning="A layer adds an update to the residual stream instead of replacing it.",
    intuition="A motorway past every town: the traffic goes straight through, and each town only adds a few cars.",
    symbols={"h=h_l": "residual stream", "f=F(h_l)": "sublayer output", r"alpha=\alpha": "weight", "y=h_{l+1}": "sum"},
    flops=lambda shape, alpha: shape if alpha == 1.0 else 2 * shape,
)
def residual(h: Float[Tensor, "*shape"], f: Float[Tensor, "*shape"], alpha: float = 1.0) -> Float[Tensor, "*shape"]:
    """Add a sublayer's output to its input (He et al., 2015), scaled by less than one in very deep stacks."""
    return h + f if alpha == 1.0 else h + alpha * f


residual.def_gradient(r"\bar h = \bar y, \quad \bar f = \alpha \, \bar y")(lambda y_bar, alpha: (y_bar, alpha * y_bar))


@residual.def_cell
def _residual_cell(index: tuple[int, ...], h: Tensor, f: Tensor, alpha: float) -> str:
    update = number(f[index]) if alpha == 1.0 else times(alpha, f[index])
    return total([number(h[index]), update], [])
