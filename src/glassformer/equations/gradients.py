"""Slopes and gradients: a line, a difference quotient, the norm of all gradients, and clipping."""

import math
from collections.abc import Sequence
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import get_total_norm

from glassformer.arithmetic import factor, minus, number, times, total
from glassformer.equation import equation
from glassformer.equations.ranges import Require, not_negative, positive, same_dtype


@equation(
    r"y = m x + b",
    meaning="A straight line: one step to the right changes the height by the slope.",
    intuition="A staircase: the slope is the height of a stair, the intercept the floor it starts on.",
    symbols={"x": "where", "m": "slope", "b": "intercept", "y": "height"},
    flops=lambda shape: 2 * shape,
)
def line(x: Float[Tensor, "*shape"], m: float, b: float = 0.0) -> Float[Tensor, "*shape"]:
    """Evaluate a straight line."""
    return m * x + b


line.def_gradient(r"\bar x = m \, \bar y")(lambda y_bar, m: m * y_bar)
line.def_cell(lambda index, x, m, b: total([times(m, x[index]), number(b)], []))


def _not_zero(require: Require, /, h: object) -> None:
    require(isinstance(h, Real) and 0 < abs(float(h)) < math.inf, "h", repr(h), "a finite number other than zero")


@equation(
    r"q = \frac{f(x + h) - f(x)}{h} \;\to\; \frac{df}{dx} \text{ as } h \to 0",
    meaning="The slope over a short stretch: how much the value changes for each unit of x.",
    intuition="Walk one short pace along a hillside and read off how much height you have won or lost.",
    symbols={"f_ahead=f(x + h)": "f(x + h)", "f_here=f(x)": "f(x)", "h": "length of the stretch", "q": "slope"},
    flops=lambda size: 2 * size,
    where={"h": _not_zero, "f_ahead f_here": same_dtype},
    upcast=True,
)
def difference_quotient(
    f_ahead: Float[Tensor, "*size"], f_here: Float[Tensor, "*size"], h: float
) -> Float[Tensor, "*size"]:
    """Estimate a derivative from two values of a function, h apart."""
    return (f_ahead - f_here) / h


@difference_quotient.def_gradient(r"\bar f(x + h) = \bar q / h, \quad \bar f(x) = -\bar q / h")
def _difference_quotient_gradient(q_bar: Tensor, h: float) -> tuple[Tensor, Tensor]:
    return q_bar / h, -q_bar / h


@difference_quotient.def_cell
def _difference_quotient_cell(index: tuple[int, ...], f_ahead: Tensor, f_here: Tensor, h: float) -> str:
    return f"({minus(f_ahead[index], f_here[index])}) / {factor(h)}"


@equation(
    r"\lVert g \rVert = \sqrt{\sum_k \sum_i g_{k,i}^2}",
    meaning="The norm of all gradients together, concatenated into one long vector.",
    intuition="However many axes there are, a ruler laid from start to finish gives one number.",
    symbols={"gradients=g": "gradients g_k of any shapes", r"norm=\lVert g \rVert": "global norm"},
    flops=lambda gradients: sum(2 * g.numel() + 1 for g in gradients) + 1,
)
def global_norm(gradients: Sequence[Float[Tensor, "..."]]) -> Float[Tensor, ""]:
    """The norm of many gradients as one vector (Pascanu et al., 2013); half precision is summed in float32."""
    squares = [(g.float() if g.dtype.itemsize < 4 else g).square().sum() for g in gradients]
    return torch.stack(squares).sum().sqrt().to(gradients[0].dtype)


@global_norm.def_fused
def _global_norm_fused(gradients: Sequence[Tensor]) -> Tensor:
    upcast = [g.float() if g.dtype.itemsize < 4 else g for g in gradients]
    return get_total_norm(upcast).to(gradients[0].dtype)


@global_norm.def_gradient(r"\bar g_k = \frac{\bar n}{\lVert g \rVert} \, g_k")
def _global_norm_gradient(norm_bar: Tensor, gradients: Sequence[Tensor], norm: Tensor) -> list[Tensor]:
    return [norm_bar * (g / norm.clamp_min(torch.finfo(norm.dtype).tiny)) for g in gradients]


@global_norm.def_cell
def _global_norm_cell(index: tuple[int, ...], gradients: Sequence[Tensor]) -> str:
    numbers = torch.cat([g.flatten() for g in gradients]).tolist()
    return f"√({total([f'{factor(x)}^2' for x in numbers], [x * x for x in numbers])})"


@global_norm.def_check
def _global_norm_check(gradients: Sequence[Tensor]) -> None:
    several = isinstance(gradients, Sequence) and len(gradients) > 0
    got = f"{len(gradients)} tensors" if isinstance(gradients, Sequence) else f"a {type(gradients).__name__}"
    global_norm.require(several, "gradients", got, "a list of at least one tensor")


def _length(require: Require, /, norm: Tensor) -> None:
    fits = bool((norm >= 0) & norm.isfinite())
    require(fits, "norm", number(norm.detach()), "a finite norm, zero or more")


@equation(
    r"g' = g \cdot \min\left(1,\; \frac{c}{\lVert g \rVert + \epsilon}\right)",
    meaning="A gradient whose norm exceeds the limit is scaled down to it; its direction stays.",
    intuition="A dog on a lead: it may run where it likes, but never further than the lead is long.",
    symbols={
        "g": "gradient",
        r"norm=\lVert g \rVert": "norm of all gradients together",
        "limit=c": "c, the largest norm allowed",
        r"eps=\epsilon": "ε, keeps the division away from zero",
        "g_new=g'": "clipped gradient",
    },
    names={"g": "gradient"},
    flops=lambda size: size + 4,
    where={"limit": positive, "eps": not_negative, "g norm": same_dtype, "norm": _length},
    upcast=True,
)
def clip_gradient(
    g: Float[Tensor, "*size"], norm: Float[Tensor, ""], limit: float, eps: float = 1e-6
) -> Float[Tensor, "*size"]:
    """Clip a gradient by its norm (Pascanu et al., 2013); `norm` comes from `global_norm`."""
    return g * (limit / (norm + eps)).clamp_max(1)


@clip_gradient.def_gradient(
    r"s = \frac{c}{\lVert g \rVert + \epsilon}, \quad \bar g = \min(1, s) \, \bar g', \quad "
    r"\bar n = -[s \le 1] \frac{s}{\lVert g \rVert + \epsilon} \langle \bar g', g \rangle"
)
def _clip_gradient_gradient(
    g_new_bar: Tensor, g: Tensor, norm: Tensor, limit: float, eps: float
) -> tuple[Tensor, Tensor]:
    s = limit / (norm + eps)
    shorter = -s / (norm + eps) * (g_new_bar * g).sum()
    return g_new_bar * s.clamp_max(1), torch.where(s <= 1, shorter, 0)


@clip_gradient.def_cell
def _clip_gradient_cell(index: tuple[int, ...], g: Tensor, norm: Tensor, limit: float, eps: float) -> str:
    return f"{number(g[index])}·min(1, {number(limit)}/({number(norm)} + {number(eps)}))"
