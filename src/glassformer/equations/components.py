"""Principal components: the directions in which vectors differ most, to draw many dimensions in two."""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import minus, total
from glassformer.equation import equation
from glassformer.equations.ranges import finite, whole

EIGENVALUE_FLOPS = 9  # times n³: what the usual algorithm takes for all eigenvectors of a symmetric matrix


@equation(
    r"Y = (X - \mu) V_k, \quad \frac{1}{n} (X - \mu)^\top (X - \mu) = V \Lambda V^\top, \quad "
    r"\lambda_1 \ge \lambda_2 \ge \dots",
    meaning="Vectors are seen from the side on which they differ most: each keeps its first k principal components.",
    intuition="Hold a flat fish to the lamp so that its shadow is as large as it can be.",
    symbols={
        "X": "vectors, one per row, with the mean μ",
        "k": "number of components to keep",
        "Y": "components of each vector, the direction of the largest variance first",
    },
    names={"X": "vectors", "Y": "components"},
    flops=lambda n, dim, k: (
        2 * n * dim + 2 * n * dim * dim + dim * dim + EIGENVALUE_FLOPS * dim**3 + 2 * n * dim * k + 2 * dim * k + k
    ),
    where={"X": finite, "k": whole},
    upcast=True,
)
def principal_components(X: Float[Tensor, "n dim"], k: int = 2) -> Float[Tensor, "n k"]:
    """Principal component analysis (Pearson, 1901); each direction points to where its largest entry is positive."""
    centered = X - X.mean(0)
    return centered @ _directions(centered, k)


def _directions(centered: Tensor, k: int) -> Tensor:
    """The k eigenvectors of the covariance with the largest eigenvalues, as columns [dim, k]."""
    _, V = torch.linalg.eigh(centered.T @ centered / len(centered))
    V = V[:, -k:].flip(-1)
    largest = V.abs().argmax(0, keepdim=True)
    return V * V.gather(0, largest).sign()


@principal_components.def_gradient(
    r"\bar X = \bar Y V_k^\top + \tfrac{1}{n} (X - \mu) V (F \odot S + (F \odot S)^\top) V^\top - \text{mean}, \quad "
    r"S = V^\top (X - \mu)^\top \bar Y, \; F_{ij} = \frac{1}{\lambda_j - \lambda_i}"
)
def _principal_components_gradient(Y_bar: Tensor, X: Tensor, k: int) -> Tensor:
    centered = X - X.mean(0)
    values, V = torch.linalg.eigh(centered.T @ centered / len(X))
    V = torch.cat([V[:, :-k], _directions(centered, k).flip(-1)], -1)
    S = V.T @ centered.T @ Y_bar.flip(-1)  # [dim, k]: how the loss changes as each direction turns to another
    gap = values[-k:] - values[:, None]
    turn = torch.zeros_like(V)
    turn[:, -k:] = (S / gap.masked_fill(gap == 0, torch.inf)).nan_to_num()
    covariance_bar = V @ (turn + turn.T) @ V.T
    X_bar = Y_bar.flip(-1) @ V[:, -k:].T + centered @ covariance_bar / len(X)
    return X_bar - X_bar.mean(0)


@principal_components.def_cell
def _principal_components_cell(index: tuple[int, ...], X: Tensor, k: int) -> str:
    mean = X.mean(0)
    v, x = _directions(X - mean, k)[:, index[1]].tolist(), X[index[0]]
    rows = list(zip(x.tolist(), mean.tolist(), v, strict=True))
    terms = [f"({minus(a, m)})·({b:.6g})".replace("-", "−") for a, m, b in rows]
    return total(terms, [(a - m) * b for a, m, b in rows])


@principal_components.def_check
def _principal_components_check(X: Tensor, k: int) -> None:
    n, dim = X.shape
    principal_components.require(n >= 2, "X", f"of shape {[n, dim]}", "at least two vectors")
    principal_components.require(k <= dim, "k", k, f"at most {dim}, the dimension of the vectors")
