"""Products and transposes of matrices."""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import dot, number
from glassformer.equation import equation
from glassformer.equations.ranges import same_dtype


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
    """Multiply matrices, broadcasting along the batch axes."""
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
    r"B_{ij} = A_{ji}",
    meaning="Rows become columns.",
    intuition="Reading a timetable by station instead of by train.",
    symbols={"A": "matrices", "B": "transposed matrices"},
    flops=lambda: 0,
)
def transpose(A: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch columns rows"]:
    """Swap the last two axes."""
    return A.mT


transpose.def_gradient(r"\bar A = \bar B^\top")(lambda B_bar: B_bar.mT)
transpose.def_cell(lambda index, A: number(A.mT[index]))
