"""Dropout: random zeros in training, so that no unit depends on another."""

import torch
from jaxtyping import Float, Real
from torch import Tensor
from torch.nn import functional

from glassformer.arithmetic import factor, number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, below_one


def _floating(require: Require, /, x: Tensor) -> None:
    require(x.is_floating_point(), "x", f"of type {str(x.dtype).removeprefix('torch.')}", "type float")


@equation(
    r"m_i \sim \operatorname{Bernoulli}(1 - p)",
    meaning="Every number is kept with probability 1 − p: one keeps it, zero drops it.",
    intuition="Draw lots for who is absent from today's rehearsal.",
    symbols={
        "x=": "activations; only their shape and dtype are used",
        "p": "probability of dropping a number",
        "generator=": "random generator; torch's default if not given",
        "m": "dropout mask of zeros and ones",
    },
    flops=lambda: 0,
    where={"p": below_one, "x": _floating},
)
def dropout_mask(
    x: Real[Tensor, "*shape"], p: float, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """Draw which numbers to keep; the draw does not depend on their values, so no gradient flows back."""
    if x.is_cpu and not torch.compiler.is_compiling():
        return kept_of(random_words(x.shape, generator), p).to(x.dtype)
    return uniform_mask(x, p, generator)


dropout_mask.def_gradient(r"\bar x = 0", wrt="x")(lambda: None)


def uniform_mask(x: Tensor, p: float, generator: torch.Generator | None) -> Tensor:
    """Ones and, with probability p, zeros in the dtype of x, from a random float each: fast on a GPU and compiled."""
    # Into a tensor that exists: compiled for lengths that vary, torch.rand does not take a generator (torch 2.13).
    drawn = torch.empty(x.shape, dtype=torch.float32, device=x.device).uniform_(generator=generator)
    return (drawn >= p).to(x.dtype)


def random_words(shape: torch.Size, generator: torch.Generator | None) -> Tensor:
    """Integers of sixteen random bits each; a CPU draws them in less than half of the time of floats."""
    words = torch.empty(-(-shape.numel() // 4), dtype=torch.int64, device="cpu")
    return words.random_(-(2**63), None, generator=generator).view(torch.int16)[: shape.numel()].view(shape)


def kept_of(words: Tensor, p: float) -> Tensor:
    """Ones and, with probability p to the nearest of 65,536 steps, zeros in float32."""
    return words.to(torch.float32).ge_(round(p * 2**16) - 2**15)


@equation(
    r"y = \frac{x \odot m}{1 - p}",
    meaning="Dropped numbers become zero; kept ones are scaled up so that the mean stays.",
    intuition="When half the choir is absent, the rest sing twice as loud.",
    symbols={
        "x": "activations",
        "m": "dropout mask of zeros and ones",
        "p": "dropout probability",
        "y": "activations after dropout",
    },
    flops=lambda shape: 2 * shape,
    where={"p": below_one},
    upcast=True,
)
def apply_dropout(x: Float[Tensor, "*shape"], m: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Drop numbers by a mask and scale the rest up (inverted dropout: Srivastava et al., 2014)."""
    return x * m / (1 - p)


@apply_dropout.def_gradient(r"\bar x = \frac{\bar y \odot m}{1 - p}, \quad \bar m = \frac{\bar y \odot x}{1 - p}")
def _apply_dropout_gradient(y_bar: Tensor, x: Tensor, m: Tensor, p: float) -> tuple[Tensor, Tensor]:
    return y_bar * m / (1 - p), y_bar * x / (1 - p)


apply_dropout.def_cell(lambda index, x, m, p: f"{number(x[index])}·{factor(m[index])} / (1 − {number(p)})")


@equation(
    r"y = \frac{x \odot m}{1 - p}, \quad m_i \sim \operatorname{Bernoulli}(1 - p)",
    meaning="Random numbers are dropped, and the rest are scaled up to keep the mean.",
    intuition="A team that trains with someone missing every day does not come to depend on any one of them.",
    symbols={
        "x": "activations",
        "p": "probability of dropping a number",
        "generator=": "random generator; torch's default if not given",
        "y": "activations after dropout",
    },
    where={"p": below_one},
)
def dropout(x: Float[Tensor, "*shape"], p: float, generator: torch.Generator | None = None) -> Float[Tensor, "*shape"]:
    """Drop activations at random in training (Srivastava et al., 2014)."""
    return apply_dropout(x, dropout_mask(x, p, generator), p)


@dropout.def_fused
def _dropout_fused(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    if x.is_cuda and generator is None:
        return functional.dropout(x, p)
    if x.dtype != torch.float32:  # whose product is rounded once
        return dropout.fn(x, p, generator)
    return x * dropout_mask.fn(x, p, generator).mul_(1 / (1 - p))
