"""Linear algebra and plumbing: products, sums, and the moves that turn one tensor into heads and back."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import dot, number, times, total
from glassformer.equation import equation
from glassformer.equations.ranges import same_dtype


@equation(
    r"y = x W + b",
    meaning="Every output is a weighted sum of all inputs, plus a shift.",
    intuition="A mixing desk: each output channel has its own slider for every input channel.",
    symbols={"x": "rows going in", "W": "weights, one column per output", "b": "shift", "y": "rows coming out"},
    flops=lambda rows, inputs, outputs, b: 2 * rows * inputs * outputs + (0 if b is None else rows * outputs),
    where={"x W b": same_dtype},
)
def linear(
    x: Float[Tensor, "*rows inputs"],
    W: Float[Tensor, "inputs outputs"],
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*rows outputs"]:
    """Map each row through a matrix; the same matrix serves every row."""
    y = x @ W
    return y if b is None else y + b


@linear.def_fused
def _linear_fused(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    return functional.linear(x, W.T, b)


@linear.def_gradient(r"\bar x = \bar y W^\top, \quad \bar W = x^\top \bar y, \quad \bar b = \textstyle\sum \bar y")
def _linear_gradient(y_bar: Tensor, x: Tensor, W: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    rows, outputs = x.reshape(-1, W.shape[0]), y_bar.reshape(-1, W.shape[1])
    return y_bar @ W.T, rows.T @ outputs, None if b is None else outputs.sum(0)


@linear.def_cell
def _linear_cell(index: tuple[int, ...], x: Tensor, W: Tensor, b: Tensor | None) -> str:
    text = dot(x[index[:-1]], W[:, index[-1]])
    return text if b is None else total([text, number(b[index[-1]])], [])


@equation(
    r"C = A B",
    meaning="Each entry is the inner product of a row of A and a column of B.",
    intuition="Ask every question of every answer, and write down how well each pair agrees.",
    symbols={"A": "left matrices", "B": "right matrices", "C": "products"},
    names={"C": "products"},
    flops=lambda batch, rows, inner, columns: 2 * batch * rows * inner * columns,
    where={"A B": same_dtype},
)
def matmul(
    A: Float[Tensor, "*#batch rows inner"], B: Float[Tensor, "*#batch inner columns"]
) -> Float[Tensor, "*batch rows columns"]:
    """Multiply matrices, batch by batch."""
    return A @ B


@matmul.def_gradient(r"\bar A = \bar C B^\top, \quad \bar B = A^\top \bar C")
def _matmul_gradient(C_bar: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    return C_bar @ B.mT, A.mT @ C_bar


@matmul.def_cell
def _matmul_cell(index: tuple[int, ...], A: Tensor, B: Tensor) -> str:
    batch = torch.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A, B = A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])
    return dot(A[index[:-1]], B[index[:-2]][:, index[-1]])


@equation(
    r"y = a + b",
    meaning="Two tensors are added entry by entry.",
    intuition="Two sheets of glass laid on each other: what is written on both shows through.",
    symbols={"a": "first term", "b": "second term", "y": "sum"},
    names={"y": "sum"},
    flops=lambda shape: shape,
)
def add(a: Float[Tensor, "*#shape"], b: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """Add, repeating along axes of size one."""
    return a + b


@add.def_gradient(r"\bar a = \bar y, \quad \bar b = \bar y")
def _add_gradient(y_bar: Tensor) -> tuple[Tensor, Tensor]:
    return y_bar, y_bar


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
    """Multiply entry by entry, repeating along axes of size one (Hadamard product)."""
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


@scale.def_gradient(r"\bar x = c \, \bar y")
def _scale_gradient(y_bar: Tensor, c: float) -> Tensor:
    return y_bar * c


@scale.def_cell
def _scale_cell(index: tuple[int, ...], x: Tensor, c: float) -> str:
    return times(c, x[index])


@equation(
    r"y = m x + b",
    meaning="A straight line: one step to the right changes the height by the slope.",
    intuition="A staircase: the slope is the height of a stair, the intercept the floor it starts on.",
    symbols={"x": "where", "m": "slope", "b": "intercept", "y": "height"},
    flops=lambda shape: 2 * shape,
)
def line(x: Float[Tensor, "*shape"], m: float, b: float = 0.0) -> Float[Tensor, "*shape"]:
    """Evaluate a straight line."""
    return m * x + b


@line.def_gradient(r"\bar x = m \, \bar y")
def _line_gradient(y_bar: Tensor, m: float) -> Tensor:
    return m * y_bar


@line.def_cell
def _line_cell(index: tuple[int, ...], x: Tensor, m: float, b: float) -> str:
    return total([times(m, x[index]), number(b)], [])


@equation(
    r"h_{l+1} = h_l + \alpha F(h_l)",
    meaning="A layer adds a correction to its input instead of replacing it.",
    intuition="A motorway past every town: the traffic goes straight through, and each town only adds a few cars.",
    symbols={
        "h": "what came in",
        "f": "the layer's correction",
        "alpha": "weight of the correction",
        "y": "what goes on",
    },
    flops=lambda shape, alpha: shape if alpha == 1.0 else 2 * shape,
)
def residual(h: Float[Tensor, "*shape"], f: Float[Tensor, "*shape"], alpha: float = 1.0) -> Float[Tensor, "*shape"]:
    """Add a sublayer's output to its input (He et al., 2015), scaled by less than one in very deep stacks."""
    return h + f if alpha == 1.0 else h + alpha * f


@residual.def_gradient(r"\bar h = \bar y, \quad \bar f = \alpha \, \bar y")
def _residual_gradient(y_bar: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    return y_bar, alpha * y_bar


@residual.def_cell
def _residual_cell(index: tuple[int, ...], h: Tensor, f: Tensor, alpha: float) -> str:
    correction = number(f[index]) if alpha == 1.0 else times(alpha, f[index])
    return total([number(h[index]), correction], [])


@equation(
    r"B_{ij} = A_{ji}",
    meaning="Rows become columns.",
    intuition="Reading a timetable by station instead of by train.",
    symbols={"A": "matrices", "B": "the same, turned over"},
    flops=lambda: 0,
)
def transpose(A: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch columns rows"]:
    """Swap the last two axes."""
    return A.mT


@transpose.def_gradient(r"\bar A = \bar B^\top")
def _transpose_gradient(B_bar: Tensor) -> Tensor:
    return B_bar.mT


@transpose.def_cell
def _transpose_cell(index: tuple[int, ...], A: Tensor) -> str:
    return number(A.mT[index])
