"""Scores to probabilities, and how far apart two distributions are."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import DIGITS, digits_apart, number, ratio, total
from glassformer.equation import equation
from glassformer.equations.ranges import Require

UNSEEN = 1e-4  # a smaller difference of two scores cannot be seen in the digits of an exponential


def require_scores(require: Require, symbol: str, z: Tensor) -> None:
    """Ask for rows of scores that a softmax is defined on: not empty, finite or −∞."""
    require(z.shape[-1] > 0, symbol, f"of shape {list(z.shape)}", "at least one score in each row")
    require(bool((z < torch.inf).all()), symbol, "NaN or infinite in places", "finite scores or −∞")


def require_distribution(require: Require, symbol: str, p: Tensor) -> None:
    """Ask for rows of shares: none negative, each row summing to one as far as its number type can tell."""
    require(p.shape[-1] > 0, symbol, f"of shape {list(p.shape)}", "at least one share in each row")
    require(bool((p >= 0).all()), symbol, "negative or NaN in places", "shares of zero and more")
    sums = p.double().sum(-1)
    near = (sums - 1).abs() <= max(1e-3, 2 * torch.finfo(p.dtype).eps)
    require(bool(near.all()), symbol, f"rows that sum to {sums[~near].tolist()[:3]}", "rows that sum to one")


@equation(
    r"p_i = \frac{e^{z_i - \max z}}{\sum_j e^{z_j - \max z}}",
    meaning="Scores become shares that sum to one.",
    intuition="A dimmer switch for every choice: the best one is turned up, none is switched off for good.",
    symbols={"z": "scores", "p": "shares"},
    names={"p": "probabilities"},
    flops=lambda rows, n: 5 * rows * n + 2 * rows,
    upcast=True,
)
def softmax(z: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """Turn each row of scores into probabilities (Bridle, 1990).

    A score of minus infinity gets no share; a row of nothing else is all zeros.
    """
    e = (z - _peak(z)).exp()
    return e / e.sum(-1, keepdim=True).clamp_min(1)  # the largest term is e^0, so only an empty row sums to less


@softmax.def_fused
def _softmax_fused(z: Tensor) -> Tensor:
    empty = _empty(z)  # filled before as well as after: a NaN inside would come back in autograd's gradient
    return torch.softmax(z.masked_fill(empty, 0), -1).masked_fill(empty, 0)


@softmax.def_gradient(r"\bar z = p \odot (\bar p - \langle \bar p, p \rangle)")
def _softmax_gradient(p_bar: Tensor, p: Tensor) -> Tensor:
    return p * (p_bar - (p_bar * p).sum(-1, keepdim=True))


@softmax.def_cell
def _softmax_cell(index: tuple[int, ...], z: Tensor) -> str:
    row = z[index[:-1]]
    return "0" if _empty(row) else f"{_exponential(row, row[index[-1]])} / ({_exponentials(row)})"


@softmax.def_check
def _softmax_check(z: Tensor) -> None:
    require_scores(softmax.require, "z", z)


@equation(
    r"\log p_i = (z_i - \max z) - \log \sum_j e^{z_j - \max z}",
    meaning="The logarithm of each share, without ever forming the share.",
    intuition="Keep counting zeros of a tiny chance: the share may be too small to write, its logarithm never is.",
    symbols={"z": "scores", "log_p": "logarithms of the shares"},
    flops=lambda rows, n: 5 * rows * n + 3 * rows,
    upcast=True,
)
def log_softmax(z: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """Turn each row of scores into log-probabilities; a row of −∞ stays −∞."""
    z = z - _peak(z)
    return z - z.exp().sum(-1, keepdim=True).clamp_min(1).log()


@log_softmax.def_fused
def _log_softmax_fused(z: Tensor) -> Tensor:
    empty = _empty(z)
    return functional.log_softmax(z.masked_fill(empty, 0), -1).masked_fill(empty, -torch.inf)


@log_softmax.def_gradient(r"\bar z = \overline{\log p} - p \textstyle\sum_j \overline{\log p}_j")
def _log_softmax_gradient(log_p_bar: Tensor, log_p: Tensor) -> Tensor:
    return log_p_bar - log_p.exp() * log_p_bar.sum(-1, keepdim=True)


@log_softmax.def_cell
def _log_softmax_cell(index: tuple[int, ...], z: Tensor) -> str:
    row = z[index[:-1]]
    return "−∞" if _empty(row) else f"({_difference(row[index[-1]], row.max())}) − ln({_exponentials(row)})"


@log_softmax.def_check
def _log_softmax_check(z: Tensor) -> None:
    require_scores(log_softmax.require, "z", z)


@equation(
    r"s = \max z + \log \sum_j e^{z_j - \max z}",
    meaning="A soft maximum: the largest score, and a little more for every score near it.",
    intuition="The loudest voice in a choir, raised a bit by those who sing almost as loud.",
    symbols={"z": "scores", "s": "the logarithm of the sum of their exponentials"},
    flops=lambda rows, n: 4 * rows * n + 4 * rows,
    upcast=True,
)
def logsumexp(z: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows"]:
    """Add numbers given by their logarithms; a row of −∞ gives −∞."""
    m = z.detach().amax(-1, keepdim=True)  # the shift cancels, so no gradient has to go through it
    e = (z - m.clamp_min(torch.finfo(z.dtype).min)).exp()
    return m.squeeze(-1) + e.sum(-1).clamp_min(1).log()


@logsumexp.def_fused
def _logsumexp_fused(z: Tensor) -> Tensor:
    if not z.requires_grad:  # the value of an empty row is right as it is; only its gradient is not
        return torch.logsumexp(z, -1)
    empty = _empty(z)
    return torch.logsumexp(z.masked_fill(empty, 0), -1).masked_fill(empty.squeeze(-1), -torch.inf)


@logsumexp.def_gradient(r"\bar z = \bar s \, p, \quad p = \operatorname{softmax}(z)")
def _logsumexp_gradient(s_bar: Tensor, z: Tensor) -> Tensor:
    return s_bar.unsqueeze(-1) * softmax.fn(z)


@logsumexp.def_cell
def _logsumexp_cell(index: tuple[int, ...], z: Tensor) -> str:
    row = z[index]
    return "−∞" if _empty(row) else f"{number(row.max())} + ln({_exponentials(row)})"


@logsumexp.def_check
def _logsumexp_check(z: Tensor) -> None:
    require_scores(logsumexp.require, "z", z)


@equation(
    r"J_{ij} = \frac{\partial p_i}{\partial z_j} = p_i (\delta_{ij} - p_j)",
    meaning="How each share answers to each score: it rises with its own and falls with every other.",
    intuition="A pie of fixed size: a bigger slice for one is taken from all others, most from the biggest.",
    symbols={"p": "shares", "J": "slope of share i in score j"},
    flops=lambda rows, n: 2 * rows * n**2,
    upcast=True,
)
def softmax_jacobian(p: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n n"]:
    """All slopes of a softmax, from its output alone; rows and columns sum to zero."""
    delta = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    return p.unsqueeze(-1) * (delta - p.unsqueeze(-2))


@softmax_jacobian.def_gradient(r"\bar p = \operatorname{diag}(\bar J) - (\bar J + \bar J^\top) p")
def _softmax_jacobian_gradient(J_bar: Tensor, p: Tensor) -> Tensor:
    return J_bar.diagonal(dim1=-2, dim2=-1) - ((J_bar + J_bar.mT) @ p.unsqueeze(-1)).squeeze(-1)


@softmax_jacobian.def_cell
def _softmax_jacobian_cell(index: tuple[int, ...], p: Tensor) -> str:
    i, j = index[-2:]
    row = p[index[:-2]]
    return f"{number(row[i])}·({int(i == j)} − {number(row[j])})"


@softmax_jacobian.def_check
def _softmax_jacobian_check(p: Tensor) -> None:
    require_distribution(softmax_jacobian.require, "p", p)


@equation(
    r"H(p) = -\sum_i p_i \log p_i",
    meaning="How uncertain a distribution is, in nats.",
    intuition="The toss of a fair coin holds ln 2 nats, about 0.69; what is certain holds none.",
    symbols={"p": "shares", "H": "entropy"},
    names={"H": "entropy"},
    flops=lambda rows, n: 3 * rows * n + rows,
    upcast=True,
)
def entropy(p: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows"]:
    """The mean surprise of a distribution (Shannon, 1948), where 0 log 0 = 0.

    The slope at a share of zero is infinite; it is taken as zero, its limit behind a softmax.
    """
    return -(p * p.where(p > 0, 1).log()).sum(-1)


@entropy.def_gradient(r"\bar p_i = -\bar H (\log p_i + 1)")
def _entropy_gradient(H_bar: Tensor, p: Tensor) -> Tensor:
    return torch.where(p > 0, -H_bar.unsqueeze(-1) * (p.log() + 1), 0)


@entropy.def_cell
def _entropy_cell(index: tuple[int, ...], p: Tensor) -> str:
    p = p[index][p[index] > 0]
    return f"−({total([f'{number(a)}·ln({number(a)})' for a in p], (p * p.log()).tolist())})"


@entropy.def_check
def _entropy_check(p: Tensor) -> None:
    require_distribution(entropy.require, "p", p)


@equation(
    r"H(p, q) = -\sum_i p_i \log q_i",
    meaning="The mean surprise of someone who believes q while p is true, in nats.",
    intuition="The length of messages packed for the wrong traffic: common words got the long codes.",
    symbols={"p": "true shares", "q": "believed shares", "H": "cross-entropy"},
    flops=lambda rows, n: 3 * rows * n + rows,
    upcast=True,
)
def cross_entropy_between(p: Float[Tensor, "*rows n"], q: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows"]:
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


@cross_entropy_between.def_check
def _cross_entropy_between_check(p: Tensor, q: Tensor) -> None:
    require_distribution(cross_entropy_between.require, "p", p)
    require_distribution(cross_entropy_between.require, "q", q)


@equation(
    r"D(p \,\|\, q) = \sum_i p_i \log \frac{p_i}{q_i}",
    meaning="What it costs, in nats, to believe q while p is true: nothing only when they are equal.",
    intuition="The extra length of a message written with a code book made for somebody else's language.",
    symbols={"p": "true shares", "q": "believed shares", "D": "divergence"},
    flops=lambda rows, n: 5 * rows * n,
    upcast=True,
)
def kl_divergence(p: Float[Tensor, "*rows n"], q: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows"]:
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


@kl_divergence.def_check
def _kl_divergence_check(p: Tensor, q: Tensor) -> None:
    require_distribution(kl_divergence.require, "p", p)
    require_distribution(kl_divergence.require, "q", q)


def _peak(z: Tensor) -> Tensor:
    """The largest score of each row, finite even where every score is −∞ or there is none."""
    if z.shape[-1] == 0:
        return z.new_zeros(*z.shape[:-1], 1)
    return z.amax(-1, keepdim=True).clamp_min(torch.finfo(z.dtype).min)


def _empty(z: Tensor) -> Tensor:
    """Which rows hold nothing but −∞."""
    return (z == -torch.inf).all(-1, keepdim=True)


def _difference(a: Tensor, b: Tensor) -> str:
    digits = digits_apart(a, b) if abs(a - b) > UNSEEN else DIGITS
    return f"{number(a, digits)} − {number(b, digits)}".replace("− −", "+ ")


def _exponential(row: Tensor, score: Tensor) -> str:
    return f"e^({_difference(score, row.max())})"


def _exponentials(row: Tensor) -> str:
    return total([_exponential(row, score) for score in row], (row - row.max()).exp().tolist())
