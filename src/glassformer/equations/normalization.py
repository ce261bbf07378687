"""Normalisation: bring numbers to a common scale before they are used."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import factor, minus, number, times
from glassformer.equation import equation


@equation(
    r"y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta",
    meaning="Each row is centred and brought to unit spread, then scaled and shifted as learned.",
    intuition="Marks of different teachers put on one scale before they are compared.",
    symbols={
        "x": "rows",
        "gamma": "learned scale",
        "beta": "learned shift",
        "eps": "keeps the root from zero",
        "y": "normalised rows",
    },
    flops=lambda rows, dim: 7 * rows * dim + 2 * rows,
    upcast=True,
)
def layer_norm(
    x: Float[Tensor, "*rows dim"], gamma: Float[Tensor, " dim"], beta: Float[Tensor, " dim"], eps: float = 1e-5
) -> Float[Tensor, "*rows dim"]:
    """Normalise each row by its own mean and biased variance (Ba et al., 2016)."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return gamma * (centred / (variance + eps).sqrt()) + beta


@layer_norm.def_fused
def _layer_norm_fused(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    return functional.layer_norm(x, gamma.shape, gamma, beta, eps)


@layer_norm.def_gradient(
    r"\bar x = \frac{1}{s}\left(g - \overline{g} - \hat x \, \overline{g \odot \hat x}\right), \; "
    r"g = \gamma \odot \bar y, \quad \bar \gamma = \textstyle\sum \bar y \odot \hat x, \quad \bar \beta = \sum \bar y"
)
def _layer_norm_gradient(y_bar: Tensor, x: Tensor, gamma: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centred = x - x.mean(-1, keepdim=True)
    spread = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    unit, g = centred / spread, gamma * y_bar
    x_bar = (g - g.mean(-1, keepdim=True) - unit * (g * unit).mean(-1, keepdim=True)) / spread
    return x_bar, y_bar * unit, y_bar


@layer_norm.def_cell
def _layer_norm_cell(index: tuple[int, ...], x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> str:
    row, i = x[index[:-1]], index[-1]
    mean, variance = row.mean(), row.var(correction=0)
    unit = f"({minus(row[i], mean)}) / √({number(variance)} + {number(eps)})"
    return f"{number(gamma[i])}·{unit} + {factor(beta[i])}"


@layer_norm.def_check
def _layer_norm_check(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> None:
    layer_norm.require_type("x", x, gamma=gamma, beta=beta)
    layer_norm.require(x.shape[-1] > 0, "x", f"of shape {list(x.shape)}", "at least one number in each row")
    layer_norm.require(eps >= 0, "eps", eps, "zero or more")


@equation(
    r"y = \gamma \odot \frac{x - \mu}{\sigma + \epsilon} + \beta",
    meaning="Layer normalisation with the small number added outside the root, as some texts print it.",
    intuition="The same scale with the thumb laid on another corner: close, but not equal.",
    symbols={
        "x": "rows",
        "gamma": "scale",
        "beta": "shift",
        "eps": "added to the spread itself",
        "y": "normalised rows",
    },
    flops=lambda rows, dim: 7 * rows * dim + 2 * rows,
    upcast=True,
)
def layer_norm_outside(
    x: Float[Tensor, "*rows dim"], gamma: Float[Tensor, " dim"], beta: Float[Tensor, " dim"], eps: float = 1e-5
) -> Float[Tensor, "*rows dim"]:
    """Layer norm with epsilon outside the root: here only to reproduce numbers that were printed that way."""
    centred = x - x.mean(-1, keepdim=True)
    return gamma * (centred / (centred.square().mean(-1, keepdim=True).sqrt() + eps)) + beta


@layer_norm_outside.def_gradient(
    r"\bar x = \frac{1}{\sigma + \epsilon}\left(g - \overline{g} - \hat x \, \frac{\sigma+\epsilon}{\sigma}\,"
    r"\overline{g \odot \hat x}\right), \; g = \gamma \odot \bar y, \; \hat x = \tfrac{x-\mu}{\sigma+\epsilon}"
)
def _layer_norm_outside_gradient(y_bar: Tensor, x: Tensor, gamma: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centred = x - x.mean(-1, keepdim=True)
    spread = centred.square().mean(-1, keepdim=True).sqrt()
    unit, g = centred / (spread + eps), gamma * y_bar
    pull = centred * (g * unit).mean(-1, keepdim=True) / torch.where(spread > 0, spread, 1)
    return (g - g.mean(-1, keepdim=True) - pull) / (spread + eps), y_bar * unit, y_bar


@equation(
    r"y = \gamma \odot \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \epsilon}}",
    meaning="Each row is brought to unit root mean square; its direction stays.",
    intuition="Every arrow is cut to the same length; only where it points still matters.",
    symbols={"x": "rows", "gamma": "learned scale, or none", "eps": "keeps the root from zero", "y": "normalised rows"},
    flops=lambda rows, dim, gamma: (3 if gamma is None else 4) * rows * dim + 2 * rows,
    upcast=True,
)
def rms_norm(
    x: Float[Tensor, "*rows dim"], gamma: Float[Tensor, " dim"] | None = None, eps: float = 1e-6
) -> Float[Tensor, "*rows dim"]:
    """Normalise each row by its root mean square (Zhang and Sennrich, 2019)."""
    unit = x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return unit if gamma is None else gamma * unit


@rms_norm.def_fused
def _rms_norm_fused(x: Tensor, gamma: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    return functional.rms_norm(x, x.shape[-1:], gamma, eps)


@rms_norm.def_gradient(
    r"\bar x = \frac{1}{s}\left(g - \hat x \, \overline{g \odot \hat x}\right), \; g = \gamma \odot \bar y, "
    r"\quad \bar \gamma = \textstyle\sum \bar y \odot \hat x"
)
def _rms_norm_gradient(y_bar: Tensor, x: Tensor, gamma: Tensor | None, eps: float) -> tuple[Tensor, Tensor | None]:
    size = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    unit = x / size
    g = y_bar if gamma is None else gamma * y_bar
    x_bar = (g - unit * (g * unit).mean(-1, keepdim=True)) / size
    return x_bar, None if gamma is None else y_bar * unit


@rms_norm.def_cell
def _rms_norm_cell(index: tuple[int, ...], x: Tensor, gamma: Tensor | None, eps: float) -> str:
    row, i = x[index[:-1]], index[-1]
    top = number(row[i]) if gamma is None else times(gamma[i], row[i])
    return f"{top} / √({number(row.square().mean())} + {number(eps)})"


@rms_norm.def_check
def _rms_norm_check(x: Tensor, gamma: Tensor | None, eps: float) -> None:
    rms_norm.require_type("x", x, gamma=gamma)
    rms_norm.require(x.shape[-1] > 0, "x", f"of shape {list(x.shape)}", "at least one number in each row")
    rms_norm.require(eps >= 0, "eps", eps, "zero or more")


@equation(
    r"y = \gamma \odot \frac{x - \mu_{\text{batch}}}{\sqrt{\sigma^2_{\text{batch}} + \epsilon}} + \beta",
    meaning="Each feature is centred and scaled over all examples of the batch.",
    intuition="Grading on a curve: the mark depends on who else sat the exam.",
    symbols={
        "x": "examples",
        "gamma": "learned scale",
        "beta": "learned shift",
        "eps": "keeps the root from zero",
        "y": "normalised examples",
    },
    flops=lambda examples, dim: 7 * examples * dim + 2 * dim,
    upcast=True,
)
def batch_norm(
    x: Float[Tensor, "examples dim"], gamma: Float[Tensor, " dim"], beta: Float[Tensor, " dim"], eps: float = 1e-5
) -> Float[Tensor, "examples dim"]:
    """Normalise each feature over the batch (Ioffe and Szegedy, 2015), for contrast with layer norm."""
    centred = x - x.mean(0)
    return gamma * (centred / (centred.square().mean(0) + eps).sqrt()) + beta


@batch_norm.def_fused
def _batch_norm_fused(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    if len(x) == 1:  # torch refuses a batch of one; the formula does not
        return batch_norm.fn(x, gamma, beta, eps)
    return functional.batch_norm(x, None, None, gamma, beta, training=True, eps=eps)


@batch_norm.def_gradient(
    r"\bar x = \frac{1}{s}\left(g - \overline{g} - \hat x \, \overline{g \odot \hat x}\right)"
    r" \text{ with means over examples}"
)
def _batch_norm_gradient(y_bar: Tensor, x: Tensor, gamma: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centred = x - x.mean(0)
    spread = (centred.square().mean(0) + eps).sqrt()
    unit, g = centred / spread, gamma * y_bar
    return (g - g.mean(0) - unit * (g * unit).mean(0)) / spread, y_bar * unit, y_bar


@batch_norm.def_check
def _batch_norm_check(x: Tensor, eps: float) -> None:
    batch_norm.require(x.shape[0] > 0, "x", f"of shape {list(x.shape)}", "at least one example")
    batch_norm.require(eps >= 0, "eps", eps, "zero or more")
