"""Dropout: noise on purpose, so that no unit leans on another."""

import torch
from jaxtyping import Float, Real
from torch import Tensor

from glassformer.arithmetic import factor, number
from glassformer.equation import equation
from glassformer.equations.ranges import below_one


@equation(
    r"m_i \sim \operatorname{Bernoulli}(1 - r)",
    meaning="A coin is thrown for every number: one keeps it, zero drops it.",
    intuition="Draw lots for who is absent from today's rehearsal.",
    symbols={
        "x": "numbers to draw for; their shape counts, not their values",
        "rate": "share dropped, r",
        "generator": "source of the random numbers; torch's own when none is given",
        "m": "ones to keep, zeros to drop",
    },
    flops=lambda: 0,
)
def dropout_mask(
    x: Real[Tensor, "*shape"], rate: float, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """Draw which numbers to keep; the draw does not depend on the numbers, so no gradient goes back."""
    # Drawn in float32 whatever the type of x: a half-precision draw has too few steps for a rate of 0.001.
    # And into a tensor that exists: compiled for lengths that vary, torch.rand does not take a generator (torch 2.13).
    drawn = torch.empty(x.shape, dtype=torch.float32, device=x.device).uniform_(generator=generator)
    return (drawn >= rate).to(x.dtype)


@dropout_mask.def_gradient(r"\bar x = 0", wrt="x")
def _dropout_mask_gradient() -> None:
    return None


@dropout_mask.def_check
def _dropout_mask_check(x: Tensor, rate: float) -> None:
    below_one(dropout_mask.require, rate=rate)
    dropout_mask.require(x.is_floating_point(), "x", f"of type {str(x.dtype).removeprefix('torch.')}", "type float")


@equation(
    r"y = \frac{x \odot m}{1 - r}",
    meaning="Dropped numbers become zero; kept ones grow so that the mean stays.",
    intuition="When half the choir is absent, the rest sing twice as loud.",
    symbols={"x": "numbers", "m": "ones to keep, zeros to drop", "rate": "share dropped, r", "y": "thinned numbers"},
    flops=lambda shape: 2 * shape,
    where={"rate": below_one},
    upcast=True,
)
def apply_dropout(x: Float[Tensor, "*shape"], m: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """Drop numbers by a mask and scale the rest up (Srivastava et al., 2014, inverted)."""
    return x * m / (1 - rate)


@apply_dropout.def_gradient(r"\bar x = \frac{\bar y \odot m}{1 - r}, \quad \bar m = \frac{\bar y \odot x}{1 - r}")
def _apply_dropout_gradient(y_bar: Tensor, x: Tensor, m: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    return y_bar * m / (1 - rate), y_bar * x / (1 - rate)


@apply_dropout.def_cell
def _apply_dropout_cell(index: tuple[int, ...], x: Tensor, m: Tensor, rate: float) -> str:
    return f"{number(x[index])}·{factor(m[index])} / (1 − {number(rate)})"


@equation(
    r"y = \frac{x \odot m}{1 - r}, \quad m_i \sim \operatorname{Bernoulli}(1 - r)",
    meaning="A random share of the numbers is dropped, and the rest grow to keep the mean.",
    intuition="A team that trains with somebody missing every day does not come to depend on any one of them.",
    symbols={
        "x": "numbers",
        "rate": "share dropped, r",
        "generator": "source of the random numbers; torch's own when none is given",
        "y": "thinned numbers",
    },
    where={"rate": below_one},
)
def dropout(
    x: Float[Tensor, "*shape"], rate: float, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """Thin out numbers at random while training (Srivastava et al., 2014)."""
    return apply_dropout(x, dropout_mask(x, rate, generator), rate)
