"""Muon: orthogonalized momentum for weight matrices."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import dot, number, times, total
from glassformer.equation import equation
from glassformer.equations.optimizers import exponential_moving_average, gradient_descent, weight_decay
from glassformer.equations.ranges import below_one, finite, not_negative, positive, same_dtype, whole
from glassformer.equations.similarity import l2_norm

_A, _B, _C = 3.4445, -4.7750, 2.0315


@equation(
    r"X = \frac{G}{\max(\lVert G \rVert, \epsilon)}",
    meaning="A matrix is scaled until the squares of its entries sum to one.",
    intuition="Turn the volume to a fixed level before touching the balance of the instruments.",
    symbols={
        "G": "matrices",
        r"eps=\epsilon": "ε, keeps the division away from zero",
        "X": "matrices of Frobenius norm one",
    },
    flops=lambda batch, rows, columns: batch * (3 * rows * columns + 2),
    where={"eps": positive, "G": finite},
    upcast=True,
)
def frobenius_normalize(
    G: Float[Tensor, "*batch rows columns"], eps: float = 1e-7
) -> Float[Tensor, "*batch rows columns"]:
    """Divide each matrix by its Frobenius norm, so that no singular value is above one."""
    return G / _frobenius(G).clamp_min(eps)


@frobenius_normalize.def_gradient(r"\bar G = \frac{\bar X - \langle \bar X, X \rangle X}{\lVert G \rVert}")
def _frobenius_normalize_gradient(X_bar: Tensor, X: Tensor, G: Tensor, eps: float) -> Tensor:
    norm = _frobenius(G)
    along = (X_bar * X).sum((-2, -1), keepdim=True) * X
    return torch.where(norm > eps, X_bar - along, X_bar) / norm.clamp_min(eps)


@frobenius_normalize.def_cell
def _frobenius_normalize_cell(index: tuple[int, ...], G: Tensor, eps: float) -> str:
    entries = G[index[:-2]].flatten().tolist()
    squares = total([f"({number(x)})^2" for x in entries], [x * x for x in entries])
    return f"{number(G[index])} / max(√({squares}), {number(eps)})"


def _frobenius(G: Tensor) -> Tensor:
    return l2_norm.fn(G.flatten(-2))[..., None, None]


@equation(
    r"A = X X^\top, \quad X' = a X + (b A + c A^2) X, \quad a = 3.4445, \; b = -4.7750, \; c = 2.0315",
    meaning="One iteration that raises the small singular values of a matrix and keeps the others near one.",
    intuition="Press on a dented ball all round: the flat sides come out, the bulges go in.",
    symbols={
        "X": "matrices with singular values up to one",
        "X_new=X'": "the same; after a few iterations all singular values lie between about 0.7 and 1.2",
    },
    flops=lambda batch, rows, columns: (
        batch
        * ((4 * min(rows, columns) + 2) * rows * columns + 2 * min(rows, columns) ** 3 + 3 * min(rows, columns) ** 2)
    ),
    where={"X": finite},
)
def newton_schulz(X: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rows columns"]:
    """Apply s ↦ as + bs³ + cs⁵ to the singular values (Jordan et al., 2024).

    The coefficients make small values grow fast; values settle between about 0.7 and 1.2, not at one.
    """
    lying = _lying(X)
    X_new = _A * lying + _quartic(lying @ lying.mT) @ lying
    return X_new.mT if lying is not X else X_new


@newton_schulz.def_fused
def _newton_schulz_fused(X: Tensor) -> Tensor:
    lying = _lying(X.reshape(-1, *X.shape[-2:]))
    A = lying @ lying.mT
    X_new = torch.baddbmm(lying, torch.baddbmm(A, A, A, beta=_B, alpha=_C), lying, beta=_A)
    return (X_new.mT if X.shape[-2] > X.shape[-1] else X_new).reshape(X.shape)


@newton_schulz.def_gradient(
    r"P = b A + c A^2, \quad \bar P = \bar X' X^\top, \quad \bar A = b \bar P + c (\bar P A + A \bar P), \quad "
    r"\bar X = a \bar X' + P \bar X' + (\bar A + \bar A^\top) X"
)
def _newton_schulz_gradient(X_new_bar: Tensor, X: Tensor) -> Tensor:
    lying, bar = _lying(X), _lying(X_new_bar)
    A, P_bar = lying @ lying.mT, bar @ lying.mT
    A_bar = _B * P_bar + _C * (P_bar @ A + A @ P_bar)
    X_bar = _A * bar + _quartic(A) @ bar + (A_bar + A_bar.mT) @ lying
    return X_bar.mT if lying is not X else X_bar


@newton_schulz.def_cell
def _newton_schulz_cell(index: tuple[int, ...], X: Tensor) -> str:
    X, (row, column) = X[index[:-2]], index[-2:]
    return total([times(_A, X[row, column]), dot(_quartic(X @ X.mT)[row], X[:, column])], [])


def _lying(X: Tensor) -> Tensor:
    return X.mT if X.shape[-2] > X.shape[-1] else X  # the iteration commutes with transposition; a small A is cheaper


def _quartic(A: Tensor) -> Tensor:
    return _B * A + _C * (A @ A)


@equation(
    r"X_0 = \frac{G}{\max(\lVert G \rVert, \epsilon)}, \quad X_{k+1} = a X_k + (b A_k + c A_k^2) X_k, \quad "
    r"A_k = X_k X_k^\top",
    meaning="Every singular value is brought near one: all directions of a matrix become equally strong.",
    intuition="Stretch a squashed ball until it is nearly round, without turning it.",
    symbols={
        "G": "matrices",
        "steps=": "Newton-Schulz iterations",
        r"eps=\epsilon": "ε, keeps the division away from zero",
        "X": "matrices with the same singular vectors and singular values of about one",
    },
    where={"steps": whole, "eps": positive, "G": finite},
)
def orthogonalize(
    G: Float[Tensor, "*batch rows columns"], steps: int = 5, eps: float = 1e-7
) -> Float[Tensor, "*batch rows columns"]:
    """Find roughly the nearest orthogonal matrix, in the dtype of the input (Jordan et al., 2024)."""
    X = frobenius_normalize(G, eps)
    for _ in range(steps):
        X = newton_schulz(X)
    return X


@equation(
    r"B' = \beta B + (1 - \beta) g, \quad u = \beta B' + (1 - \beta) g, \quad "
    r"\theta' = (1 - \eta \lambda) \, \theta - \eta \sqrt{\max(1, n / m)} \; \text{orthogonalize}(u)",
    meaning="Average the gradients of a weight matrix, make all their directions equally strong, step that way.",
    intuition="A tug of war where every rope gets the same pull, so that a few strong teams do not drag the rest.",
    symbols={
        r"theta=\theta": "weight matrices, n rows and m columns",
        "g": "gradient",
        "buffer=B": "B, the momentum buffer, zeros at first",
        r"rate=\eta": "η, the learning rate",
        r"beta=\beta": "β, decay of the buffer",
        r"decay=\lambda": "λ, strength of the decay",
        "nesterov=": "whether u looks one step ahead; otherwise u is B'",
        "steps=": "Newton-Schulz iterations",
        r"theta_new=\theta'": "updated matrices",
        "buffer_new=B'": "updated buffer",
    },
    names={"g": "gradient"},
    where={"theta g buffer": same_dtype, "steps": whole, "rate decay": not_negative, "beta": below_one, "g": finite},
)
def muon(
    theta: Float[Tensor, "*batch rows columns"],
    g: Float[Tensor, "*batch rows columns"],
    buffer: Float[Tensor, "*batch rows columns"],
    rate: float,
    beta: float = 0.95,
    decay: float = 0.1,
    nesterov: bool = True,
    steps: int = 5,
) -> tuple[Float[Tensor, "*batch rows columns"], Float[Tensor, "*batch rows columns"]]:
    """Orthogonalized momentum for the hidden matrices of a network (Jordan et al., 2024).

    The factor for tall matrices takes rows for outputs: pass a weight of shape [inputs, outputs] transposed.
    `torch.optim.Muon` rounds each iteration to bfloat16: for singular values within a factor of ten of each other,
    entries of the orthogonalized matrix differ by up to 0.15 from those computed in float32.
    """
    buffer = exponential_moving_average(buffer, g, beta)
    u = exponential_moving_average(buffer, g, beta) if nesterov else buffer
    theta = weight_decay(theta, rate, decay)
    tall = math.sqrt(max(1.0, theta.shape[-2] / theta.shape[-1]))
    return gradient_descent(theta, orthogonalize(u, steps), rate * tall), buffer
