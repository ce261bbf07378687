"""Losses that training minimizes, and the figures they are reported as: perplexity and bits per byte."""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import minus, number, ratio, total
from glassformer.equation import equation
from glassformer.equations.information import one_hot
from glassformer.equations.ranges import Require, below_one, finite, not_negative, positive, valid_logits
from glassformer.equations.softmax import log_softmax, softmax
from glassformer.equations.special_ranges import counts, distribution, one_of

Reduction = Literal["mean", "sum", "none"]


@equation(
    r"y'_i = (1 - \epsilon) \, y_i + \frac{\epsilon}{n}",
    meaning="A little of the target's probability is spread evenly over all classes.",
    intuition="A teacher who says almost surely instead of certainly, and so never asks for infinite confidence.",
    symbols={
        "y": "target probabilities",
        r"epsilon=\epsilon": "ε, probability spread evenly",
        "smooth=y'": "smoothed targets, y'",
    },
    flops=lambda batch, n: 2 * batch * n,
    where={"y": distribution, "epsilon": below_one},
    upcast=True,
)
def label_smoothing(y: Float[Tensor, "*batch n"], epsilon: float) -> Float[Tensor, "*batch n"]:
    """Smooth one-hot or other targets (Szegedy et al., 2016)."""
    return (1 - epsilon) * y + epsilon / y.shape[-1]


label_smoothing.def_gradient(r"\bar y = (1 - \epsilon) \, \bar y'")(
    lambda smooth_bar, epsilon: (1 - epsilon) * smooth_bar
)


@label_smoothing.def_cell
def _label_smoothing_cell(index: tuple[int, ...], y: Tensor, epsilon: float) -> str:
    return f"(1 − {number(epsilon)})·{number(y[index])} + {number(epsilon)} / {y.shape[-1]}"


@equation(
    r"L = -\frac{1}{N} \sum_n \sum_i y_{ni} \log p_{ni}, \quad p = \operatorname{softmax}(\text{logits})",
    meaning="The mean surprise of the model at the targets.",
    intuition="A bet on every class: the fine is small if most of the stake lay on the right one, huge if little did.",
    symbols={
        r"logits=\text{logits}": "logits of every class, for each example",
        "targets=y": "the right class of each example, or the probability of each class, y",
        "label_smoothing=": "probability of each target spread evenly over all classes",
        "ignore_index=": "class whose examples are left out",
        "reduction=": "mean over the examples that count, their sum, or the loss of each",
        "L": "loss, in nats",
    },
    flops=lambda batch, classes, ignore_index, reduction: (
        9 * batch * classes
        + 4 * batch
        + (0 if ignore_index is None else batch * classes)
        + {"none": 0, "sum": batch, "mean": batch + 1}[reduction]
    ),
    where={"logits": valid_logits, "label_smoothing": below_one, "reduction": one_of("mean", "sum", "none")},
    upcast=True,
)
def cross_entropy(
    logits: Float[Tensor, "*batch classes"],
    targets: Int[Tensor, "*batch"] | Float[Tensor, "*batch classes"],
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    """Cross-entropy of logits and targets; where no example counts, the mean is 0 and so is its gradient."""
    y = _target_probabilities(targets, logits, label_smoothing, ignore_index)
    log_p = log_softmax.fn(logits)
    L = -(y * _where_needed(log_p, y)).sum(-1)
    if reduction == "none":
        return L
    return L.sum() if reduction == "sum" else L.sum() / _count(targets, logits, ignore_index)


@cross_entropy.def_fused
def _cross_entropy_fused(
    logits: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    if targets.is_floating_point():  # torch gives NaN for an impossible class, even with a target of zero
        return cross_entropy.fn(logits, targets, label_smoothing, ignore_index, reduction)
    flat = logits.reshape(-1, logits.shape[-1])
    L = functional.cross_entropy(
        flat.to(torch.promote_types(flat.dtype, torch.float32)),
        targets.reshape(-1).long(),
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
        reduction="none" if reduction == "none" else "sum",
    )
    L = L / _count(targets, logits, ignore_index) if reduction == "mean" else L
    return (L.reshape(targets.shape) if reduction == "none" else L).to(logits.dtype)


@cross_entropy.def_gradient(
    r"\overline{\text{logits}} = \frac{\bar L}{N} (p - y), \quad \bar y = -\frac{\bar L}{N} \log p"
)
def _cross_entropy_gradient(
    L_bar: Tensor,
    logits: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> tuple[Tensor, Tensor | None]:
    y = _target_probabilities(targets, logits, label_smoothing, ignore_index)
    each = L_bar / _count(targets, logits, ignore_index) if reduction == "mean" else L_bar
    each = each.unsqueeze(-1) if reduction == "none" else each
    # the probabilities of a target sum to one, or to zero where the example is left out
    logits_bar = each * (softmax.fn(logits) * y.sum(-1, keepdim=True) - y)
    if not targets.is_floating_point():
        return logits_bar, None
    return logits_bar, (label_smoothing - 1) * each * _where_needed(log_softmax.fn(logits), y)


@cross_entropy.def_cell
def _cross_entropy_cell(
    index: tuple[int, ...],
    logits: Tensor,
    targets: Tensor,
    label_smoothing: float,
    ignore_index: int | None,
    reduction: Reduction,
) -> str:
    y, p = _target_probabilities(targets, logits, label_smoothing, ignore_index)[index], softmax.fn(logits)[index]
    y, p = y[y > 0], p[y > 0]
    terms = [f"{'' if a == 1 else number(a) + '·'}ln({number(b)})" for a, b in zip(y.tolist(), p.tolist(), strict=True)]
    text = f"−({total(terms, (y * p.log()).tolist())})"
    return f"{text} / {int(_count(targets, logits, ignore_index))}" if reduction == "mean" else text


@cross_entropy.def_check
def _cross_entropy_check(logits: Tensor, targets: Tensor, ignore_index: int | None) -> None:
    require = cross_entropy.require
    if targets.is_floating_point():
        require(
            ignore_index is None, "ignore_index", ignore_index, "None, since targets are probabilities and not classes"
        )
        return distribution(require, targets=targets)
    wrong = (targets < 0) | (targets >= logits.shape[-1])
    wrong = wrong if ignore_index is None else wrong & (targets != ignore_index)
    wanted = f"classes from 0 to {logits.shape[-1] - 1}" + (
        "" if ignore_index is None else f", or {ignore_index} to be left out"
    )
    require(not wrong.any(), "targets", f"{targets[wrong].tolist()[:3]} in some entries", wanted)


@equation(
    r"w_c = \frac{N}{C \, \max(n_c, 1)}, \quad N = \sum_c n_c",
    meaning="The rarer a class, the more each of its examples counts in the loss; together all classes count alike.",
    intuition="A parliament in which every state has as many votes, however few people live there.",
    symbols={"n": "number of examples of each class, C of them", "w": "weight of an example of each class"},
    names={"w": "class_weights"},
    flops=lambda classes: classes,
    where={"n": counts},
)
def balanced_class_weights(n: Int[Tensor, " classes"]) -> Float[Tensor, " classes"]:
    """Class weights inversely proportional to class frequencies (King and Zeng, 2001), as scikit-learn's balanced."""
    return n.sum() / (len(n) * n.clamp_min(1))


balanced_class_weights.def_cell(lambda index, n: f"{int(n.sum())} / ({len(n)}·{max(int(n[index]), 1)})")


def _finite_logits(require: Require, /, **tensors: Tensor) -> None:
    valid_logits(require, **tensors)
    finite(require, **tensors)


@equation(
    r"D = \frac{1}{2} \sum_i (p_i - q_i)(\log p_i - \log q_i), \quad p = \operatorname{softmax}(z), \; "
    r"q = \operatorname{softmax}(w)",
    meaning="How far two predictions are apart: the mean of the divergence of each from the other.",
    intuition="Ask a witness twice, each time with other details left out: a sure one tells the same story.",
    symbols={"z": "logits of one pass", "w": "logits of another pass", "D": "symmetric divergence, in nats"},
    flops=lambda batch, n: 16 * batch * n + 7 * batch,
    where={"z w": _finite_logits},
    upcast=True,
)
def symmetric_kl(z: Float[Tensor, "*batch n"], w: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """Symmetric KL divergence of the logits of two passes with different dropout (R-Drop: Liang et al., 2021)."""
    return _mutual(log_softmax.fn(z), log_softmax.fn(w))


symmetric_kl.def_fused(lambda z, w: _mutual(functional.log_softmax(z, -1), functional.log_softmax(w, -1)))


def _mutual(log_p: Tensor, log_q: Tensor) -> Tensor:
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1) / 2


@symmetric_kl.def_gradient(
    r"\bar z_i = \tfrac{1}{2} \bar D \left( p_i - q_i + p_i \left(\log \tfrac{p_i}{q_i} - D(p \,\|\, q)\right) \right),"
    r"\quad "
    r"\bar w_i = \tfrac{1}{2} \bar D \left( q_i - p_i + q_i \left(\log \tfrac{q_i}{p_i} - D(q \,\|\, p)\right) \right)"
)
def _symmetric_kl_gradient(D_bar: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    log_p, log_q = log_softmax.fn(z), log_softmax.fn(w)
    return _pull(D_bar, log_p, log_q), _pull(D_bar, log_q, log_p)


def _pull(D_bar: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """The gradient of the divergence for the logits whose log-probabilities come first."""
    p, log_ratio = own.exp(), own - other
    divergence = (p * log_ratio).sum(-1, keepdim=True)
    return D_bar.unsqueeze(-1) / 2 * (p - other.exp() + p * (log_ratio - divergence))


@symmetric_kl.def_cell
def _symmetric_kl_cell(index: tuple[int, ...], z: Tensor, w: Tensor) -> str:
    p, q = softmax.fn(z[index]), softmax.fn(w[index])
    terms = [f"({minus(a, b)})·ln({ratio(a, b)})" for a, b in zip(p, q, strict=True)]
    return f"({total(terms, ((p - q) * (p / q).log()).tolist())}) / 2"


def _numbers(require: Require, /, **tensors: Tensor) -> None:
    for symbol, tensor in tensors.items():
        require(tensor.numel() > 0, symbol, f"of shape {list(tensor.shape)}", "at least one number")
    finite(require, **tensors)


@equation(
    r"L = \frac{1}{N} \sum_n \| \hat y_n - y_n \|^2",
    meaning="The mean squared distance of predictions from targets.",
    intuition="Darts: the score is the square of how far each one lands from the bull's eye.",
    symbols={r"y_hat=\hat y": "predictions, one vector per example", "y": "targets", "L": "loss"},
    names={"y": "targets", "L": "loss"},
    flops=lambda batch, outputs: 3 * batch * outputs + 1,
    where={"y_hat y": _numbers},
    upcast=True,
)
def mean_squared_error(y_hat: Float[Tensor, "*batch outputs"], y: Float[Tensor, "*batch outputs"]) -> Float[Tensor, ""]:
    """Mean squared error: N counts examples, the norm sums over the outputs of each (Legendre, 1805)."""
    return (y_hat - y).square().sum() / (y.numel() // y.shape[-1])


@mean_squared_error.def_gradient(r"\bar{\hat y} = \frac{2}{N} \bar L (\hat y - y), \quad \bar y = -\bar{\hat y}")
def _mean_squared_error_gradient(L_bar: Tensor, y_hat: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y_hat_bar = 2 * L_bar * (y_hat - y) / (y.numel() // y.shape[-1])
    return y_hat_bar, -y_hat_bar


@mean_squared_error.def_cell
def _mean_squared_error_cell(index: tuple[int, ...], y_hat: Tensor, y: Tensor) -> str:
    a, b = y_hat.flatten(), y.flatten()
    terms = [f"({minus(x, t)})^2" for x, t in zip(a.tolist(), b.tolist(), strict=True)]
    return f"({total(terms, (a - b).square().tolist())}) / {y.numel() // y.shape[-1]}"


@equation(
    r"P = \exp\left(-\frac{1}{T} \sum_t \log p(x_t \mid x_{<t})\right)",
    meaning="Among how many equally likely tokens the model seems to be choosing at each step.",
    intuition="A die with that many faces would have been as hard to predict as this text was.",
    symbols={
        r"log_probs=\log p": "log-probability of each target token, log p",
        "mask=": "true for tokens that count; all of them if not given",
        "P": "perplexity",
    },
    names={"P": "perplexity"},
    flops=lambda shape: shape + 3,
    upcast=True,
)
def perplexity(log_probs: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"] | None = None) -> Float[Tensor, ""]:
    """Perplexity of a text under a model: 1 when every token was certain, the vocabulary's size for a uniform guess."""
    kept = log_probs if mask is None else log_probs.where(mask, 0)
    return (-kept.sum() / _how_many(log_probs, mask)).exp()


@perplexity.def_gradient(r"\overline{\log p}_t = -\frac{1}{T} P \bar P")
def _perplexity_gradient(P_bar: Tensor, P: Tensor, log_probs: Tensor, mask: Tensor | None) -> Tensor:
    each = (-P_bar * P / _how_many(log_probs, mask)).expand(log_probs.shape)
    return each if mask is None else each.where(mask, 0)


@perplexity.def_cell
def _perplexity_cell(index: tuple[int, ...], log_probs: Tensor, mask: Tensor | None) -> str:
    kept = (log_probs if mask is None else log_probs[mask]).flatten().tolist()
    return f"e^(−({total([number(x) for x in kept], kept)}) / {len(kept)})"


@perplexity.def_check
def _perplexity_check(log_probs: Tensor, mask: Tensor | None) -> None:
    kept = log_probs if mask is None else log_probs[mask]
    perplexity.require(kept.numel() > 0, "log_probs" if mask is None else "mask", "empty", "at least one token")
    perplexity.require((kept <= 0).all(), "log_probs", "NaN or above zero in some entries", "log-probabilities")


@equation(
    r"b = \frac{\text{nats}}{\text{bytes} \cdot \ln 2}",
    meaning="The loss per byte of text, in bits: comparable between models with different tokenizers.",
    intuition="How small the text would be if the model were used to compress it: at 8 nothing is won.",
    symbols={
        r"nats=\text{nats}": "loss summed over a text, in nats",
        r"bytes=\text{bytes}": "length of the text, in bytes",
        "bits=b": "bits per byte, b",
    },
    where={"nats": not_negative, "bytes": positive},
)
def bits_per_byte(nats: float, bytes: int) -> float:
    """Turn a summed loss into bits per byte, which does not depend on the tokenizer."""
    return nats / (bytes * math.log(2))


bits_per_byte.def_cell(lambda index, nats, bytes: f"{number(nats)} / ({number(bytes)}·ln(2))")


def _target_probabilities(targets: Tensor, logits: Tensor, epsilon: float, ignore_index: int | None) -> Tensor:
    """Targets as smoothed probabilities of every class; zero for examples left out."""
    given = targets if targets.is_floating_point() else one_hot.fn(targets, logits.shape[-1], logits.dtype)
    y = label_smoothing.fn(given, epsilon)
    return y if ignore_index is None else y * (targets != ignore_index).unsqueeze(-1)


def _count(targets: Tensor, logits: Tensor, ignore_index: int | None) -> Tensor | int:
    if ignore_index is None:
        return max(1, logits.numel() // logits.shape[-1])
    return (targets != ignore_index).sum().clamp_min(1)


def _where_needed(log_p: Tensor, y: Tensor) -> Tensor:
    """Log-probabilities, with those of impossible classes of target zero left out: 0 log 0 = 0."""
    return log_p.masked_fill((y == 0) & (log_p == -torch.inf), 0)


def _how_many(log_probs: Tensor, mask: Tensor | None) -> Tensor | int:
    return log_probs.numel() if mask is None else mask.sum().clamp_min(1)
