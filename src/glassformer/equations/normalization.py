"""Normalization of hidden states: LayerNorm and RMSNorm."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import factor, minus, number, times
from glassformer.equation import equation
from glassformer.equations.ranges import not_empty, not_negative, same_dtype

HALF = (torch.float16, torch.bfloat16)


@equation(
    r"y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta",
    meaning="Each vector is centered and scaled to unit variance, then given a learned scale and bias.",
    intuition="Marks of different teachers put on one scale before they are compared.",
    symbols={
        "x": "hidden states",
        r"gamma=\gamma": "learned scale",
        r"beta=\beta": "learned bias",
        r"eps=\epsilon": "keeps the root from zero",
        "y": "normalized hidden states",
    },
    flops=lambda batch, dim: 7 * batch * dim + 2 * batch,
    where={"x gamma beta": same_dtype, "x": not_empty, "eps": not_negative},
    upcast=True,
)
def layer_norm(
    x: Float[Tensor, "*batch dim"], gamma: Float[Tensor, " dim"], beta: Float[Tensor, " dim"], eps: float = 1e-5
) -> Float[Tensor, "*batch dim"]:
    """Normalize each vector by its own mean and biased variance (Ba et al., 2016)."""
    centered = x - x.mean(-1, keepdim=True)
    variance = centered.square().mean(-1, keepdim=True)
    return gamma * (centered / (variance + eps).sqrt()) + beta


@layer_norm.def_fused
def _layer_norm_fused(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    if x.is_cuda and x.dtype in HALF:  # its kernel sums in float32; autocast would round twice, with copies between
        with torch.autocast(x.device.type, enabled=False):
            return functional.layer_norm(x, gamma.shape, gamma.to(x.dtype), beta.to(x.dtype), eps)
    return functional.layer_norm(x, gamma.shape, gamma, beta, eps)


@layer_norm.def_gradient(
    r"\bar x = \frac{1}{s}\left(g - \overline{g} - \hat x \, \overline{g \odot \hat x}\right), \; "
    r"g = \gamma \odot \bar y, \quad \bar \gamma = \textstyle\sum \bar y \odot \hat x, \quad \bar \beta = \sum \bar y"
)
def _layer_norm_gradient(y_bar: Tensor, x: Tensor, gamma: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centered = x - x.mean(-1, keepdim=True)
    spread = (centered.square().mean(-1, keepdim=True) + eps).sqrt()
    unit, g = centered / spread, gamma * y_bar
    x_bar = (g - g.mean(-1, keepdim=True) - unit * (g * unit).mean(-1, keepdim=True)) / spread
    return x_bar, y_bar * unit, y_bar


@layer_norm.def_cell
def _layer_norm_cell(index: tuple[int, ...], x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> str:
    x, i = x[index[:-1]], index[-1]
    mean, variance = x.mean(), x.var(correction=0)
    unit = f"({minus(x[i], mean)}) / √({number(variance)} + {number(eps)})"
    return f"{number(gamma[i])}·{unit} + {factor(beta[i])}"


@equation(
    r"y = \gamma \odot \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \epsilon}}",
    meaning="Each vector is scaled to unit root mean square; its direction stays.",
    intuition="Every arrow is cut to the same length; only where it points still matters.",
    symbols={
        "x": "hidden states",
        r"gamma=\gamma": "learned scale, or none",
        r"eps=\epsilon": "keeps the root from zero",
        "y": "normalized",
    },
    flops=lambda batch, dim, gamma: (3 if gamma is None else 4) * batch * dim + 2 * batch,
    where={"x gamma": same_dtype, "x": not_empty, "eps": not_negative},
    upcast=True,
)
def rms_norm(
    x: Float[Tensor, "*batch dim"], gamma: Float[Tensor, " dim"] | None = None, eps: float = 1e-6
) -> Float[Tensor, "*batch dim"]:
    """Normalize each vector by its root mean square (Zhang and Sennrich, 2019)."""
    unit = x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return unit if gamma is None else gamma * unit


@rms_norm.def_fused
def _rms_norm_fused(x: Tensor, gamma: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    return functional.rms_norm(x, x.shape[-1:], gamma if gamma is None else gamma.to(x.dtype), eps)


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
    x, i = x[index[:-1]], index[-1]
    top = number(x[i]) if gamma is None else times(gamma[i], x[i])
    return f"{top} / √({number(x.square().mean())} + {number(eps)})"
