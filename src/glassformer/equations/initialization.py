"""Random initial weights: normal, and GPT-2's scaled normal."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.ranges import float_dtype, not_negative, sizes, whole


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \sigma^2\right)",
    meaning="Each number is drawn from the normal distribution around zero.",
    intuition="Darts thrown at a line: most land close, few land far away.",
    symbols={
        "shape=": "shape",
        r"std=\sigma": "σ, standard deviation",
        "generator=": "random generator",
        "dtype=": "dtype",
        "W": "random numbers",
    },
    where={"std": not_negative, "shape": sizes, "dtype": float_dtype},
)
def normal(
    shape: tuple[int, ...],
    std: float = 0.02,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "..."]:
    """Draw from a normal distribution, by default with GPT-2's standard deviation (Radford et al., 2019)."""
    return (std * draw(torch.randn, shape, generator, dtype)).to(dtype)


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \frac{\sigma^2}{2 L}\right)",
    meaning="Weights that write into the residual stream start smaller the more layers write into it.",
    intuition="Many cooks, one pot: each adds less salt, so that the soup tastes the same.",
    symbols={
        "shape=": "shape",
        r"std=\sigma": "σ, standard deviation of the other weights",
        "layers=L": "L, layers of the model, each of which writes twice",
        "generator=": "random generator",
        "dtype=": "dtype",
        "W": "weights",
    },
    where={"std": not_negative, "layers": whole, "shape": sizes, "dtype": float_dtype},
)
def scaled_normal(
    shape: tuple[int, ...],
    std: float,
    layers: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "..."]:
    """Weights of the output projections of attention and feed-forward in GPT-2 (Radford et al., 2019)."""
    return normal(shape, std / math.sqrt(2 * layers), generator, dtype)


def draw(
    source: Callable[..., Tensor], shape: tuple[int, ...], generator: torch.Generator | None, dtype: torch.dtype
) -> Tensor:
    """Random numbers on the generator's device; half precision is drawn in float32 and rounded at the end."""
    device = None if generator is None else generator.device
    return source(shape, generator=generator, device=device, dtype=torch.promote_types(dtype, torch.float32))
