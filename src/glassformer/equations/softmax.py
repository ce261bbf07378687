"""Logits to probabilities: softmax, log-softmax and the log of a sum of exponentials."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import DIGITS, digits_apart, number, total
from glassformer.equation import equation
from glassformer.equations.ranges import valid_logits

UNSEEN = 1e-4  # a smaller difference of two logits cannot be seen in the digits of an exponential


@equation(
    r"p_i = \frac{e^{z_i - \max z}}{\sum_j e^{z_j - \max z}}",
    meaning="Logits become probabilities, which sum to one.",
    intuition="A dimmer switch for every choice: the best one is turned up, none is switched off for good.",
    symbols={"z": "logits", "p": "probabilities"},
    names={"p": "probabilities"},
    flops=lambda batch, n: 5 * batch * n + 2 * batch,
    where={"z": valid_logits},
    upcast=True,
)
def softmax(z: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """Turn logits into probabilities along the last axis (Bridle, 1990).

    A logit of minus infinity gets probability zero; where all are minus infinity, all probabilities are zero.
    """
    e = (z - _peak(z)).exp()
    return e / e.sum(-1, keepdim=True).clamp_min(1)  # the largest term is e^0, so only a masked-out sum is less


@softmax.def_fused
def _softmax_fused(z: Tensor) -> Tensor:
    empty = _empty(z)  # filled before as well as after: a NaN inside would come back in autograd's gradient
    return torch.softmax(z.masked_fill(empty, 0), -1).masked_fill(empty, 0)


@softmax.def_gradient(r"\bar z = p \odot (\bar p - \langle \bar p, p \rangle)")
def _softmax_gradient(p_bar: Tensor, p: Tensor) -> Tensor:
    return p * (p_bar - (p_bar * p).sum(-1, keepdim=True))


@softmax.def_cell
def _softmax_cell(index: tuple[int, ...], z: Tensor) -> str:
    z = z[index[:-1]]
    return "0" if _empty(z) else f"{_exponential(z, z[index[-1]])} / ({_exponentials(z)})"


@equation(
    r"\log p_i = (z_i - \max z) - \log \sum_j e^{z_j - \max z}",
    meaning="The logarithm of each probability, without ever forming the probability.",
    intuition="Keep counting zeros of a tiny chance: it may be too small to write, its logarithm never is.",
    symbols={"z": "logits", r"log_p=\log p": "log-probabilities"},
    flops=lambda batch, n: 5 * batch * n + 3 * batch,
    where={"z": valid_logits},
    upcast=True,
)
def log_softmax(z: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """Turn logits into log-probabilities along the last axis; where all are −∞ they stay −∞."""
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
    z = z[index[:-1]]
    return "−∞" if _empty(z) else f"({_difference(z[index[-1]], z.max())}) − ln({_exponentials(z)})"


@equation(
    r"s = \max z + \log \sum_j e^{z_j - \max z}",
    meaning="A soft maximum: the largest logit, and a little more for every logit near it.",
    intuition="The loudest voice in a choir, raised a bit by those who sing almost as loud.",
    symbols={"z": "logits", "s": "logarithm of the sum of their exponentials"},
    flops=lambda batch, n: 4 * batch * n + 4 * batch,
    where={"z": valid_logits},
    upcast=True,
)
def logsumexp(z: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """Add numbers given by their logarithms; where all are −∞ the sum is −∞."""
    m = z.detach().amax(-1, keepdim=True)  # the maximum cancels, so no gradient has to go through it
    e = (z - m.clamp_min(torch.finfo(z.dtype).min)).exp()
    return m.squeeze(-1) + e.sum(-1).clamp_min(1).log()


@logsumexp.def_fused
def _logsumexp_fused(z: Tensor) -> Tensor:
    if not z.requires_grad:  # where all logits are −∞ the value is right as it is; only its gradient is not
        return torch.logsumexp(z, -1)
    empty = _empty(z)
    return torch.logsumexp(z.masked_fill(empty, 0), -1).masked_fill(empty.squeeze(-1), -torch.inf)


@logsumexp.def_gradient(r"\bar z = \bar s \, p, \quad p = \operatorname{softmax}(z)")
def _logsumexp_gradient(s_bar: Tensor, z: Tensor) -> Tensor:
    return s_bar.unsqueeze(-1) * softmax.fn(z)


@logsumexp.def_cell
def _logsumexp_cell(index: tuple[int, ...], z: Tensor) -> str:
    z = z[index]
    return "−∞" if _empty(z) else f"{number(z.max())} + ln({_exponentials(z)})"


def _peak(z: Tensor) -> Tensor:
    """The largest logit, finite even where every logit is −∞ or there is none."""
    if z.shape[-1] == 0:
        return z.new_zeros(*z.shape[:-1], 1)
    return z.amax(-1, keepdim=True).clamp_min(torch.finfo(z.dtype).min)


def _empty(z: Tensor) -> Tensor:
    """Where all logits are −∞."""
    return (z == -torch.inf).all(-1, keepdim=True)


def _difference(a: Tensor, b: Tensor) -> str:
    digits = digits_apart(a, b) if abs(a - b) > UNSEEN else DIGITS
    return f"{number(a, digits)} − {number(b, digits)}".replace("− −", "+ ")


def _exponential(z: Tensor, logit: Tensor) -> str:
    return f"e^({_difference(logit, z.max())})"


def _exponentials(z: Tensor) -> str:
    return total([_exponential(z, logit) for logit in z], (z - z.max()).exp().tolist())
