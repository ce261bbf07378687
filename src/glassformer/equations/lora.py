"""Low-rank adaptation (LoRA): fine-tune two thin matrices beside a frozen one, and merge them into it."""

from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import dot, number, total
from glassformer.equation import equation
from glassformer.equations.algebra import linear, residual
from glassformer.equations.ranges import Require, positive, same_dtype


def _has_rank(require: Require, /, A: Tensor) -> None:
    require(A.shape[-1] > 0, "A", f"of shape {list(A.shape)}", "a rank of 1 or more")


@equation(
    r"y = x W + b + \frac{\alpha}{r} (x A) B",
    meaning="A frozen linear layer gets a trained update of low rank r beside it.",
    intuition="Tracing paper over a printed map: corrections are drawn on the sheet, and the map stays as it was.",
    symbols={
        "x": "input vectors",
        "W": "frozen weights, one column per output",
        "A": "trained matrix down to r features, random at first",
        "B": "trained matrix up from r features, zero at first",
        r"alpha=\alpha": "α, how strongly the update counts; it is divided by the rank r",
        "b": "bias",
        "y": "output vectors",
    },
    where={"x W A B b": same_dtype, "alpha": positive, "A": _has_rank},
)
def lora(
    x: Float[Tensor, "*batch inputs"],
    W: Float[Tensor, "inputs outputs"],
    A: Float[Tensor, "inputs rank"],
    B: Float[Tensor, "rank outputs"],
    alpha: float,
    b: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """Apply a linear layer with a low-rank update (Hu et al., 2021)."""
    return residual(linear(x, W, b), linear(linear(x, A), B), alpha / A.shape[1])


@lora.def_gradient(
    r"\bar x = \bar y W^\top + \tfrac{\alpha}{r} \bar y B^\top A^\top, \quad \bar W = x^\top \bar y, \quad "
    r"\bar A = \tfrac{\alpha}{r} x^\top \bar y B^\top, \quad \bar B = \tfrac{\alpha}{r} (x A)^\top \bar y, \quad "
    r"\bar b = \textstyle\sum \bar y"
)
def _lora_gradient(
    y_bar: Tensor, x: Tensor, W: Tensor, A: Tensor, B: Tensor, alpha: float, b: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    inputs, outputs, scale = x.reshape(-1, W.shape[0]), y_bar.reshape(-1, W.shape[1]), alpha / A.shape[1]
    x_bar = y_bar @ W.T + scale * (y_bar @ B.T @ A.T)
    A_bar, B_bar = scale * (inputs.T @ (outputs @ B.T)), scale * ((inputs @ A).T @ outputs)
    return x_bar, inputs.T @ outputs, A_bar, B_bar, None if b is None else outputs.sum(0)


@lora.def_cell
def _lora_cell(
    index: tuple[int, ...], x: Tensor, W: Tensor, A: Tensor, B: Tensor, alpha: float, b: Tensor | None
) -> str:
    row, column = x[index[:-1]], index[-1]
    terms = [dot(row, W[:, column])] + ([] if b is None else [number(b[column])])
    return total([*terms, _update(alpha, row @ A, B[:, column])], [])


def _update(alpha: float, row: Tensor, column: Tensor) -> str:
    """One number of a low-rank update, in arithmetic: `16/8·(0.1·1 + 1.2·0)`."""
    return f"{number(alpha)}/{len(row)}·({dot(row, column)})"


@equation(
    r"W' = W + \frac{\alpha}{r} A B",
    meaning="A low-rank update is added to the weights, so that it costs nothing at inference.",
    intuition="The corrections on the tracing paper are printed into the next edition of the map.",
    symbols={
        "W": "frozen weights",
        "A": "trained matrix down to r features",
        "B": "trained matrix up from r features",
        r"alpha=\alpha": "α, how strongly the update counts; it is divided by the rank r",
        "W_new=W'": "merged weights",
    },
    where={"W A B": same_dtype, "alpha": positive, "A": _has_rank},
)
def merge_lora(
    W: Float[Tensor, "inputs outputs"], A: Float[Tensor, "inputs rank"], B: Float[Tensor, "rank outputs"], alpha: float
) -> Float[Tensor, "inputs outputs"]:
    """Merge a low-rank update into the weights: `linear` with them equals `lora` (Hu et al., 2021)."""
    return residual(W, linear(A, B), alpha / A.shape[1])


@merge_lora.def_gradient(
    r"\bar W = \bar W', \quad \bar A = \tfrac{\alpha}{r} \bar W' B^\top, \quad "
    r"\bar B = \tfrac{\alpha}{r} A^\top \bar W'"
)
def _merge_lora_gradient(W_new_bar: Tensor, A: Tensor, B: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    scale = alpha / A.shape[1]
    return W_new_bar, scale * (W_new_bar @ B.T), scale * (A.T @ W_new_bar)


@merge_lora.def_cell
def _merge_lora_cell(index: tuple[int, ...], W: Tensor, A: Tensor, B: Tensor, alpha: float) -> str:
    return total([number(W[index]), _update(alpha, A[index[0]], B[:, index[1]])], [])
