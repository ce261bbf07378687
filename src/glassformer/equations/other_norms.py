"""Other normalizations: over groups of channels, over the batch, and with epsilon outside the root."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glassformer.equation import equation
from glassformer.equations.ranges import Require, not_negative, same_dtype, whole


@equation(
    r"y = \gamma \odot \frac{x - \mu}{\sigma + \epsilon} + \beta",
    meaning="LayerNorm with epsilon added outside the root, as some texts print it.",
    intuition="The same scale with the thumb laid on another corner: close, but not equal.",
    symbols={
        "x": "hidden states",
        r"gamma=\gamma": "scale",
        r"beta=\beta": "bias",
        r"eps=\epsilon": "added to the standard deviation itself",
        "y": "normalized hidden states",
    },
    flops=lambda batch, dim: 7 * batch * dim + 2 * batch,
    upcast=True,
)
def layer_norm_outside(
    x: Float[Tensor, "*batch dim"], gamma: Float[Tensor, " dim"], beta: Float[Tensor, " dim"], eps: float = 1e-5
) -> Float[Tensor, "*batch dim"]:
    """LayerNorm with epsilon outside the root: here only to reproduce numbers that were printed that way."""
    centered = x - x.mean(-1, keepdim=True)
    return gamma * (centered / (centered.square().mean(-1, keepdim=True).sqrt() + eps)) + beta


@layer_norm_outside.def_gradient(
    r"\bar x = \frac{1}{\sigma + \epsilon}\left(g - \overline{g} - \hat x \, \frac{\sigma+\epsilon}{\sigma}\,"
    r"\overline{g \odot \hat x}\right), \; g = \gamma \odot \bar y, \; \hat x = \tfrac{x-\mu}{\sigma+\epsilon}"
)
def _layer_norm_outside_gradient(y_bar: Tensor, x: Tensor, gamma: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centered = x - x.mean(-1, keepdim=True)
    spread = centered.square().mean(-1, keepdim=True).sqrt()
    unit, g = centered / (spread + eps), gamma * y_bar
    pull = centered * (g * unit).mean(-1, keepdim=True) / torch.where(spread > 0, spread, 1)
    return (g - g.mean(-1, keepdim=True) - pull) / (spread + eps), y_bar * unit, y_bar


def _examples(require: Require, /, x: Tensor) -> None:
    require(x.shape[0] > 0, "x", f"of shape {list(x.shape)}", "at least one example")


@equation(
    r"y = \gamma \odot \frac{x - \mu_{\text{batch}}}{\sqrt{\sigma^2_{\text{batch}} + \epsilon}} + \beta",
    meaning="Each feature is centered and scaled over all examples of the batch.",
    intuition="Grading on a curve: the mark depends on who else sat the exam.",
    symbols={
        "x": "examples",
        r"gamma=\gamma": "learned scale",
        r"beta=\beta": "learned bias",
        r"eps=\epsilon": "keeps the root from zero",
        "y": "normalized examples",
    },
    flops=lambda examples, dim: 7 * examples * dim + 2 * dim,
    where={"x": _examples, "eps": not_negative},
    upcast=True,
)
def batch_norm(
    x: Float[Tensor, "examples dim"], gamma: Float[Tensor, " dim"], beta: Float[Tensor, " dim"], eps: float = 1e-5
) -> Float[Tensor, "examples dim"]:
    """Normalize each feature over the batch (Ioffe and Szegedy, 2015), for contrast with LayerNorm."""
    centered = x - x.mean(0)
    return gamma * (centered / (centered.square().mean(0) + eps).sqrt()) + beta


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
    centered = x - x.mean(0)
    spread = (centered.square().mean(0) + eps).sqrt()
    unit, g = centered / spread, gamma * y_bar
    return (g - g.mean(0) - unit * (g * unit).mean(0)) / spread, y_bar * unit, y_bar


@equation(
    r"y = \gamma_c \, \frac{x - \mu_g}{\sqrt{\sigma_g^2 + \epsilon}} + \beta_c",
    meaning="The channels of a picture are centered and scaled in groups, over all pixels of that picture.",
    intuition="An orchestra tuned section by section, each to its own players.",
    symbols={
        "x": "feature maps",
        r"gamma=\gamma": "learned scale of each channel",
        r"beta=\beta": "learned bias of each channel",
        "groups=g": "groups g of channels with a mean and a variance of their own",
        r"eps=\epsilon": "keeps the root from zero",
        "y": "normalized feature maps",
    },
    flops=lambda batch, channels, height, width, groups: 7 * batch * channels * height * width + 2 * batch * groups,
    where={"x gamma beta": same_dtype, "groups": whole, "eps": not_negative},
    upcast=True,
)
def group_norm(
    x: Float[Tensor, "*batch channels height width"],
    gamma: Float[Tensor, " channels"],
    beta: Float[Tensor, " channels"],
    groups: int,
    eps: float = 1e-5,
) -> Float[Tensor, "*batch channels height width"]:
    """Normalize each group of channels by its mean and variance over the picture (Wu and He, 2018)."""
    centered = _in_groups(x, groups) - _in_groups(x, groups).mean(-1, keepdim=True)
    unit = centered / (centered.square().mean(-1, keepdim=True) + eps).sqrt()
    return gamma[:, None, None] * unit.view(x.shape) + beta[:, None, None]


def _in_groups(x: Tensor, groups: int) -> Tensor:
    return x.reshape(*x.shape[:-3], groups, -1)


@group_norm.def_fused
def _group_norm_fused(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float = 1e-5) -> Tensor:
    return functional.group_norm(x.reshape(-1, *x.shape[-3:]), groups, gamma, beta, eps).view(x.shape)


@group_norm.def_gradient(
    r"\bar x = \frac{1}{s}\left(g - \overline{g} - \hat x \, \overline{g \odot \hat x}\right)"
    r" \text{ with means over each group}, \; g = \gamma \odot \bar y"
)
def _group_norm_gradient(
    y_bar: Tensor, x: Tensor, gamma: Tensor, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    centered = _in_groups(x, groups) - _in_groups(x, groups).mean(-1, keepdim=True)
    spread = (centered.square().mean(-1, keepdim=True) + eps).sqrt()
    unit, g = centered / spread, _in_groups(gamma[:, None, None] * y_bar, groups)
    x_bar = (g - g.mean(-1, keepdim=True) - unit * (g * unit).mean(-1, keepdim=True)) / spread
    others = [axis for axis in range(x.dim()) if axis != x.dim() - 3]
    return x_bar.view(x.shape), (y_bar * unit.view(x.shape)).sum(others), y_bar.sum(others)


@group_norm.def_check
def _group_norm_check(x: Tensor, groups: int) -> None:
    divides = x.shape[-3] % groups == 0 and x.shape[-3] > 0
    group_norm.require(divides, "groups", groups, f"a number that divides the {x.shape[-3]} channels")
