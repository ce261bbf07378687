"""What a model is trained to make small, and what its size is reported as."""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import minus, number, ratio, total
from glassformer.equation import equation
from glassformer.equations.embedding import one_hot
from glassformer.equations.probability import log_softmax, require_distribution, require_scores, softmax
from glassformer.equations.ranges import below_one, not_negative, positive
from glassformer.equations.similarity import along_sphere, l2_norm, normalize

Reduction = Literal["mean", "sum", "none"]


@equation(
    r"y'_i = (1 - s) \, y_i + \frac{s}{n}",
    meaning="A little of the target's certainty is spread evenly over all classes.",
    intuition="A teacher who says almost surely instead of certainly, and so never asks for infinite confidence.",
    symbols={"y": "target shares", "smoothing": "share spread evenly, s", "smooth": "softened target shares, y'"},
    flops=lambda rows, n: 2 * rows * n,
    upcast=True,
)
def label_smoothing(y: Float[Tensor, "*rows n"], smoothing: float) -> Float[Tensor, "*rows n"]:
    """Soften one-hot or other targets (Szegedy et al., 2016)."""
    return (1 - smoothing) * y + smoothing / y.shape[-1]


@label_smoothing.def_gradient(r"\bar y = (1 - s) \, \bar y'")
def _label_smoothing_gradient(smooth_bar: Tensor, smoothing: float) -> Tensor:
    return (1 - smoothing) * smooth_bar


@label_smoothing.def_cell
def _label_smoothing_cell(index: tuple[int, ...], y: Tensor, smoothing: float) -> str:
    return f"(1 − {number(smoothing)})·{number(y[index])} + {number(smoothing)} / {y.shape[-1]}"


@label_smoothing.def_check
def _label_smoothing_check(y: Tensor, smoothing: float) -> None:
    require_distribution(label_smoothing.require, "y", y)
    below_one(label_smoothing.require, smoothing=smoothing)


@equation(
    r"L = -\frac{1}{N} \sum_n \sum_i y_{ni} \log p_{ni}, \quad p = \operatorname{softmax}(\text{logits})",
    meaning="The mean surprise of the model at what really came.",
    intuition="A bet on every class: the fine is small if most of the stake lay on the right one, huge if little did.",
    symbols={
        "logits": "scores of every class, a row per example",
        "targets": "the right class of each row, or the share of each class, y",
        "smoothing": "share of each target spread evenly over all classes",
        "ignore": "class whose rows are left out",
        "reduction": "mean over the rows that count, their sum, or each row's own loss",
        "L": "loss, in nats",
    },
    flops=lambda rows, classes, ignore, reduction: (
        9 * rows * classes
        + 4 * rows
        + (0 if ignore is None else rows * classes)
        + {"none": 0, "sum": rows, "mean": rows + 1}[reduction]
    ),
    upcast=True,
)
def cross_entropy(
    logits: Float[Tensor, "*rows classes"],
    targets: Int[Tensor, "*rows"] | Float[Tensor, "*rows classes"],
    smoothing: float = 0.0,
    ignore: int | None = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "..."]:
    """Cross-entropy of scores against targets; where no row counts, the mean is 0 and so is its gradient."""
    y = _target_shares(targets, logits, smoothing, ignore)
    log_p = log_softmax.fn(logits)
    L = -(y * _where_needed(log_p, y)).sum(-1)
    if reduction == "none":
        return L
    return L.sum() if reduction == "sum" else L.sum() / _rows_that_count(targets, logits, ignore)


@cross_entropy.def_fused
def _cross_entropy_fused(
    logits: Tensor, targets: Tensor, smoothing: float = 0.0, ignore: int | None = None, reduction: Reduction = "mean"
) -> Tensor:
    if targets.is_floating_point():  # torch gives NaN for a share of zero of an impossible class
        return cross_entropy.fn(logits, targets, smoothing, ignore, reduction)
    rows = logits.reshape(-1, logits.shape[-1])
    L = functional.cross_entropy(
        rows.to(torch.promote_types(rows.dtype, torch.float32)),
        targets.reshape(-1).long(),
        ignore_index=-100 if ignore is None else ignore,
        label_smoothing=smoothing,
        reduction="none" if reduction == "none" else "sum",
    )
    L = L / _rows_that_count(targets, logits, ignore) if reduction == "mean" else L
    return (L.reshape(targets.shape) if reduction == "none" else L).to(logits.dtype)


@cross_entropy.def_gradient(
    r"\overline{\text{logits}} = \frac{\bar L}{N} (p - y), \quad \bar y = -\frac{\bar L}{N} \log p"
)
def _cross_entropy_gradient(
    L_bar: Tensor,
    logits: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    ignore: int | None = None,
    reduction: Reduction = "mean",
) -> tuple[Tensor, Tensor | None]:
    y = _target_shares(targets, logits, smoothing, ignore)
    each = L_bar / _rows_that_count(targets, logits, ignore) if reduction == "mean" else L_bar
    each = each.unsqueeze(-1) if reduction == "none" else each
    logits_bar = each * (
        softmax.fn(logits) * y.sum(-1, keepdim=True) - y
    )  # a row of shares sums to one, or is left out
    if not targets.is_floating_point():
        return logits_bar, None
    return logits_bar, (smoothing - 1) * each * _where_needed(log_softmax.fn(logits), y)


@cross_entropy.def_cell
def _cross_entropy_cell(
    index: tuple[int, ...], logits: Tensor, targets: Tensor, smoothing: float, ignore: int | None, reduction: Reduction
) -> str:
    y, p = _target_shares(targets, logits, smoothing, ignore)[index], softmax.fn(logits)[index]
    y, p = y[y > 0], p[y > 0]
    terms = [f"{'' if a == 1 else number(a) + '·'}ln({number(b)})" for a, b in zip(y.tolist(), p.tolist(), strict=True)]
    text = f"−({total(terms, (y * p.log()).tolist())})"
    return f"{text} / {int(_rows_that_count(targets, logits, ignore))}" if reduction == "mean" else text


@cross_entropy.def_check
def _cross_entropy_check(
    logits: Tensor, targets: Tensor, smoothing: float, ignore: int | None, reduction: Reduction
) -> None:
    require = cross_entropy.require
    require_scores(require, "logits", logits)
    below_one(require, smoothing=smoothing)
    require(reduction in ("mean", "sum", "none"), "reduction", repr(reduction), "mean, sum or none")
    if targets.is_floating_point():
        require(ignore is None, "ignore", ignore, "None, since targets are shares and not classes")
        return require_distribution(require, "targets", targets)
    wrong = (targets < 0) | (targets >= logits.shape[-1])
    wrong = wrong if ignore is None else wrong & (targets != ignore)
    wanted = f"classes from 0 to {logits.shape[-1] - 1}" + ("" if ignore is None else f", or {ignore} to be left out")
    require(not wrong.any(), "targets", f"{targets[wrong].tolist()[:3]} in places", wanted)


@equation(
    r"D = \frac{1}{2} \sum_i (p_i - q_i)(\log p_i - \log q_i), \quad p = \operatorname{softmax}(z), \; "
    r"q = \operatorname{softmax}(w)",
    meaning="How far two answers to one question are apart: the mean of the divergence of each from the other.",
    intuition="Ask a witness twice, each time with other details left out: a sure one tells the same story.",
    symbols={"z": "scores of one pass", "w": "scores of another pass", "D": "disagreement, in nats"},
    flops=lambda rows, n: 16 * rows * n + 7 * rows,
    upcast=True,
)
def symmetric_kl(z: Float[Tensor, "*rows n"], w: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows"]:
    """The symmetric divergence of two rows of scores, as two passes with dropout give them (Liang et al., 2021)."""
    return _mutual(log_softmax.fn(z), log_softmax.fn(w))


@symmetric_kl.def_fused
def _symmetric_kl_fused(z: Tensor, w: Tensor) -> Tensor:
    return _mutual(functional.log_softmax(z, -1), functional.log_softmax(w, -1))


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
    """The gradient of a disagreement for the scores whose log-probabilities come first."""
    p, log_ratio = own.exp(), own - other
    divergence = (p * log_ratio).sum(-1, keepdim=True)
    return D_bar.unsqueeze(-1) / 2 * (p - other.exp() + p * (log_ratio - divergence))


@symmetric_kl.def_cell
def _symmetric_kl_cell(index: tuple[int, ...], z: Tensor, w: Tensor) -> str:
    p, q = softmax.fn(z[index]), softmax.fn(w[index])
    terms = [f"({minus(a, b)})·ln({ratio(a, b)})" for a, b in zip(p, q, strict=True)]
    return f"({total(terms, ((p - q) * (p / q).log()).tolist())}) / 2"


@symmetric_kl.def_check
def _symmetric_kl_check(z: Tensor, w: Tensor) -> None:
    for symbol, scores in (("z", z), ("w", w)):
        require_scores(symmetric_kl.require, symbol, scores)
        symmetric_kl.require(bool(scores.isfinite().all()), symbol, "−∞ in places", "finite scores")


@equation(
    r"L = \frac{1}{N} \sum_n \| \hat y_n - y_n \|^2",
    meaning="The mean squared distance of guesses from targets.",
    intuition="Darts: the score is the square of how far each one lands from the bull's eye.",
    symbols={"y_hat": "guesses, a row per example", "y": "targets", "L": "loss"},
    names={"y": "targets", "L": "loss"},
    flops=lambda rows, outputs: 3 * rows * outputs + 1,
    upcast=True,
)
def mean_squared_error(y_hat: Float[Tensor, "*rows outputs"], y: Float[Tensor, "*rows outputs"]) -> Float[Tensor, ""]:
    """Mean squared error: N counts rows alone, the norm sums over the outputs of a row (Legendre, 1805)."""
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


@mean_squared_error.def_check
def _mean_squared_error_check(y_hat: Tensor, y: Tensor) -> None:
    for name, value in (("y_hat", y_hat), ("y", y)):
        mean_squared_error.require(value.numel() > 0, name, f"of shape {list(value.shape)}", "at least one number")
        mean_squared_error.require(value.isfinite().all(), name, "NaN or infinite in places", "finite numbers")


@equation(
    r"P = \exp\left(-\frac{1}{T} \sum_t \log p(x_t \mid x_{<t})\right)",
    meaning="Among how many equally likely words the model seems to be choosing at each step.",
    intuition="A die with that many faces would have been as hard to predict as this text was.",
    symbols={
        "log_probs": "log-probability of each token that came, log p",
        "keep": "which tokens count; all of them when none is given",
        "P": "perplexity",
    },
    names={"P": "perplexity"},
    flops=lambda shape: shape + 3,
    upcast=True,
)
def perplexity(log_probs: Float[Tensor, "*shape"], keep: Bool[Tensor, "*shape"] | None = None) -> Float[Tensor, ""]:
    """Perplexity of a text under a model: 1 when every token was certain, the vocabulary's size for a blind guess."""
    kept = log_probs if keep is None else log_probs.where(keep, 0)
    return (-kept.sum() / _how_many(log_probs, keep)).exp()


@perplexity.def_gradient(r"\overline{\log p}_t = -\frac{1}{T} P \bar P")
def _perplexity_gradient(P_bar: Tensor, P: Tensor, log_probs: Tensor, keep: Tensor | None) -> Tensor:
    each = (-P_bar * P / _how_many(log_probs, keep)).expand(log_probs.shape)
    return each if keep is None else each.where(keep, 0)


@perplexity.def_cell
def _perplexity_cell(index: tuple[int, ...], log_probs: Tensor, keep: Tensor | None) -> str:
    kept = (log_probs if keep is None else log_probs[keep]).flatten().tolist()
    return f"e^(−({total([number(x) for x in kept], kept)}) / {len(kept)})"


@perplexity.def_check
def _perplexity_check(log_probs: Tensor, keep: Tensor | None) -> None:
    kept = log_probs if keep is None else log_probs[keep]
    perplexity.require(kept.numel() > 0, "log_probs" if keep is None else "keep", "empty", "at least one token")
    perplexity.require((kept <= 0).all(), "log_probs", "NaN or above zero in places", "logarithms of probabilities")


@equation(
    r"b = \frac{\text{nats}}{\text{bytes} \cdot \ln 2}",
    meaning="The loss per byte of text, in bits: comparable between models that cut text differently.",
    intuition="How small the text would be if the model were used to compress it: at 8 nothing is won.",
    symbols={
        "nats": "loss summed over a text, in nats",
        "bytes": "length of the text, in bytes",
        "bits": "bits per byte, b",
    },
    where={"nats": not_negative, "bytes": positive},
)
def bits_per_byte(nats: float, bytes: int) -> float:
    """Turn a summed loss into bits per byte, which does not depend on the tokenizer."""
    return nats / (bytes * math.log(2))


@bits_per_byte.def_cell
def _bits_per_byte_cell(index: tuple[int, ...], nats: float, bytes: int) -> str:
    return f"{number(nats)} / ({number(bytes)}·ln(2))"


@equation(
    r"L = \frac{H(Z, I) + H(Z^\top, I)}{2}, \quad Z = \frac{\hat X \hat Y^\top}{\tau}",
    meaning="Each image must find its own text among all texts of the batch, and each text its image.",
    intuition="A party where every guest has one partner: call out, and hope that the right one hears you best.",
    symbols={
        "image": "image vectors, X, a row each",
        "text": "text vectors, Y, row by row the partners of the images",
        "temperature": "scale of the cosines, τ, a number or a trained tensor of one",
        "L": "loss, in nats",
    },
    flops=lambda batch, dim: 2 * batch**2 * dim + 6 * batch * dim + 19 * batch**2 + 12 * batch + 4,
    upcast=True,
)
def contrastive_loss(
    image: Float[Tensor, "batch dim"], text: Float[Tensor, "batch dim"], temperature: Tensor | float
) -> Float[Tensor, ""]:
    """Symmetric contrastive loss over a batch of pairs (CLIP: Radford et al., 2021)."""
    z = normalize.fn(image) @ normalize.fn(text).T / temperature
    own = torch.arange(len(image), device=image.device)
    return (cross_entropy.fn(z, own) + cross_entropy.fn(z.T, own)) / 2


@contrastive_loss.def_gradient(
    r"\bar Z = \frac{\bar L}{2N} (P + P' - 2I), \quad \bar{\hat X} = \tfrac{1}{\tau} \bar Z \hat Y, \quad"
    r"\bar{\hat Y} = \tfrac{1}{\tau} \bar Z^\top \hat X, \quad \bar\tau = -\tfrac{1}{\tau} \langle \bar Z, Z \rangle",
    wrt="image text temperature",
)
def _contrastive_loss_gradient(
    L_bar: Tensor, image: Tensor, text: Tensor, temperature: Tensor | float
) -> tuple[Tensor, Tensor, Tensor | None]:
    x, y, own = normalize.fn(image), normalize.fn(text), torch.arange(len(image), device=image.device)
    z = x @ y.T / temperature
    z_bar = _cross_entropy_gradient(L_bar / 2, z, own)[0] + _cross_entropy_gradient(L_bar / 2, z.T, own)[0].T
    image_bar = along_sphere(z_bar @ y / temperature, x, l2_norm.fn(image))
    text_bar = along_sphere(z_bar.T @ x / temperature, y, l2_norm.fn(text))
    return image_bar, text_bar, -(z_bar * z).sum() / temperature if isinstance(temperature, Tensor) else None


@contrastive_loss.def_check
def _contrastive_loss_check(image: Tensor, text: Tensor, temperature: Tensor | float) -> None:
    for name, value in (("image", image), ("text", text)):
        contrastive_loss.require(value.numel() > 0, name, f"of shape {list(value.shape)}", "at least one pair")
        contrastive_loss.require(value.isfinite().all(), name, "NaN or infinite in places", "finite numbers")
    if isinstance(temperature, Tensor):
        shape = f"of shape {list(temperature.shape)}"
        contrastive_loss.require(temperature.ndim == 0, "temperature", shape, "a tensor of one number, []")
        temperature = temperature.item()
    positive(contrastive_loss.require, temperature=temperature)


def _target_shares(targets: Tensor, logits: Tensor, smoothing: float, ignore: int | None) -> Tensor:
    """Targets as shares of every class, smoothed; rows left out hold nothing."""
    given = targets if targets.is_floating_point() else one_hot.fn(targets, logits.shape[-1], logits.dtype)
    y = label_smoothing.fn(given, smoothing)
    return y if ignore is None else y * (targets != ignore).unsqueeze(-1)


def _rows_that_count(targets: Tensor, logits: Tensor, ignore: int | None) -> Tensor | int:
    if ignore is None:
        return max(1, logits.numel() // logits.shape[-1])
    return (targets != ignore).sum().clamp_min(1)


def _where_needed(log_p: Tensor, y: Tensor) -> Tensor:
    """Log-probabilities, without those of impossible classes that nobody asks for: 0 log 0 = 0."""
    return log_p.masked_fill((y == 0) & (log_p == -torch.inf), 0)


def _how_many(log_probs: Tensor, keep: Tensor | None) -> Tensor | int:
    return log_probs.numel() if keep is None else keep.sum().clamp_min(1)
