"""Information: entropy, cross-entropy and divergence of distributions, and the Jacobian of softmax."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.arithmetic import number, ratio, total
from glassformer.equation import equation
from glassformer.equations.ranges import float_dtype, require_ids, whole
from glassformer.equations.special_ranges import distribution


@equation(
    r"J_{ij} = \frac{\partial p_i}{\partial z_j} = p_i (\delta_{ij} - p_j)",
    meaning="How each probability changes with each logit: it rises with its own and falls with every other.",
    intuition="A pie of fixed size: a bigger slice for one is taken from all others, most from the biggest.",
    symbols={"p": "probabilities", "J": "derivative of probability i with respect to logit j"},
    flops=lambda batch, n: 2 * batch * n**2,
    where={"p": distribution},
    upcast=True,
)
def softmax_jacobian(p: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n n"]:
    """All derivatives of softmax, from its output alone; each row and column sums to zero."""
    delta = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    return p.unsqueeze(-1) * (delta - p.unsqueeze(-2))


@softmax_jacobian.def_gradient(r"\bar p = \operatorname{diag}(\bar J) - (\bar J + \bar J^\top) p")
def _softmax_jacobian_gradient(J_bar: Tensor, p: Tensor) -> Tensor:
    return J_bar.diagonal(dim1=-2, dim2=-1) - ((J_bar + J_bar.mT) @ p.unsqueeze(-1)).squeeze(-1)


@softmax_jacobian.def_cell
def _softmax_jacobian_cell(index: tuple[int, ...], p: Tensor) -> str:
    i, j = index[-2:]
    p = p[index[:-2]]
    return f"{number(p[i])}·({int(i == j)} − {number(p[j])})"


@equation(
    r"H(p) = -\sum_i p_i \log p_i",
    meaning="How uncertain a distribution is, in nats.",
    intuition="The toss of a fair coin holds ln 2 nats, about 0.69; what is certain holds none.",
    symbols={"p": "probabilities", "H": "entropy"},
    names={"H": "entropy"},
    flops=lambda batch, n: 3 * batch * n + batch,
    where={"p": distribution},
    upcast=True,
)
def entropy(p: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """The mean surprise of a distribution (Shannon, 1948), where 0 log 0 = 0.

    The derivative at a probability of zero is infinite; it is taken as zero, its limit behind a softmax.
    """
    return -(p * p.where(p > 0, 1).log()).sum(-1)


@entropy.def_gradient(r"\bar p_i = -\bar H (\log p_i + 1)")
def _entropy_gradient(H_bar: Tensor, p: Tensor) -> Tensor:
    return torch.where(p > 0, -H_bar.unsqueeze(-1) * (p.log() + 1), 0)


@entropy.def_cell
def _entropy_cell(index: tuple[int, ...], p: Tensor) -> str:
    p = p[index][p[index] > 0]
    return f"−({total([f'{number(a)}·ln({number(a)})' for a in p], (p * p.log()).tolist())})"


@equation(
    r"H(p, q) = -\sum_i p_i \log q_i",
    meaning="The mean surprise of a model that predicts q while p is true, in nats.",
    intuition="The length of messages packed for the wrong traffic: common words got the long codes.",
    symbols={"p": "true probabilities", "q": "predicted probabilities", "H": "cross-entropy"},
    flops=lambda batch, n: 3 * batch * n + batch,
    where={"p q": distribution},
    upcast=True,
)
def cross_entropy_between(p: Float[Tensor, "*batch n"], q: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """Cross-entropy of two distributions: entropy plus divergence; infinite where q rules out what p allows."""
    return -(p * q.where((p > 0) | (q > 0), 1).log()).sum(-1)


@cross_entropy_between.def_gradient(r"\bar p_i = -\bar H \log q_i, \quad \bar q_i = -\bar H \, p_i / q_i")
def _cross_entropy_between_gradient(H_bar: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    H_bar, q = H_bar.unsqueeze(-1), q.where((p > 0) | (q > 0), 1)
    return -H_bar * q.log(), -H_bar * p / q


@cross_entropy_between.def_cell
def _cross_entropy_between_cell(index: tuple[int, ...], p: Tensor, q: Tensor) -> str:
    true = p[index] > 0
    p, q = p[index][true], q[index][true]
    terms = [f"{number(a)}·ln({number(b)})" for a, b in zip(p, q, strict=True)]
    return f"−({total(terms, (p * q.log()).tolist())})"


@equation(
    r"D(p \,\|\, q) = \sum_i p_i \log \frac{p_i}{q_i}",
    meaning="The extra surprise, in nats, of predicting q while p is true: zero only when they are equal.",
    intuition="The extra length of a message written with a code book made for another language.",
    symbols={"p": "true probabilities", "q": "predicted probabilities", "D": "divergence"},
    flops=lambda batch, n: 5 * batch * n,
    where={"p q": distribution},
    upcast=True,
)
def kl_divergence(p: Float[Tensor, "*batch n"], q: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """The divergence of q from p (Kullback and Leibler, 1951); infinite where q rules out what p allows."""
    return (p * (p.where(p > 0, 1).log() - q.where(p > 0, 1).log())).sum(-1)


@kl_divergence.def_gradient(
    r"\bar p_i = \bar D \left(\log \frac{p_i}{q_i} + 1\right), \quad \bar q_i = -\bar D \, p_i / q_i"
)
def _kl_divergence_gradient(D_bar: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    D_bar, true = D_bar.unsqueeze(-1), p > 0
    return torch.where(true, D_bar * (p.log() - q.log() + 1), 0), torch.where(true, -D_bar * p / q, 0)


@kl_divergence.def_cell
def _kl_divergence_cell(index: tuple[int, ...], p: Tensor, q: Tensor) -> str:
    true = p[index] > 0
    p, q = p[index][true], q[index][true]
    terms = [f"{number(a)}·ln({ratio(a, b)})" for a, b in zip(p, q, strict=True)]
    return total(terms, (p * (p / q).log()).tolist())


@equation(
    r"x_i = [i = \text{id}]",
    meaning="A vector of zeros with a single one at the id, so that a product with a table selects a row.",
    intuition="A panel of switches of which exactly one is on.",
    symbols={
        r"ids=\text{id}": "token ids",
        "size=": "number of different ids",
        "dtype=": "dtype",
        "x": "one vector per id",
    },
    flops=lambda: 0,
    where={"size": whole, "dtype": float_dtype},
)
def one_hot(ids: Int[Tensor, "*shape"], size: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape size"]:
    """One-hot vectors of ids."""
    return (ids[..., None] == torch.arange(size, device=ids.device)).to(dtype)


@one_hot.def_check
def _one_hot_check(ids: Tensor, size: int) -> None:
    require_ids(one_hot.require, ids, size, f"a table of size {size}")
