"""Initial weights whose variance follows the layer's inputs and outputs (Xavier, He); uniform, truncated normal."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.initialization import draw, normal
from glassformer.equations.ranges import float_dtype, not_negative, positive, sizes, whole

_SYMBOLS = {
    r"inputs=n_\text{in}": "inputs of the layer, n_in",
    r"outputs=n_\text{out}": "outputs of the layer, n_out",
    "generator=": "random generator",
    "dtype=": "dtype",
    "W": "weights",
}


@equation(
    r"W_{ij} \sim \mathcal U\left(-a, a\right)",
    meaning="Each number is drawn from an interval around zero, every value in it equally likely.",
    intuition="Rain on a pavement: every spot is as likely to be hit as every other.",
    symbols={
        "shape=": "shape",
        "bound=a": "a",
        "generator=": "random generator",
        "dtype=": "dtype",
        "W": "random numbers",
    },
    where={"bound": not_negative, "shape": sizes, "dtype": float_dtype},
)
def uniform(
    shape: tuple[int, ...], bound: float, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "..."]:
    """Draw from the uniform distribution between −a and a."""
    return (bound * (2 * draw(torch.rand, shape, generator, dtype) - 1)).to(dtype)


@equation(
    r"W_{ij} \sim \mathcal U\left(-a, a\right), \quad a = \sqrt{\frac{6}{n_\text{in} + n_\text{out}}}",
    meaning="Activations keep their variance on the way forward and gradients on the way back.",
    intuition="The more people talk at once, the softer each must speak for the room to stay as loud as before.",
    symbols=_SYMBOLS,
    where={"inputs outputs": whole, "dtype": float_dtype},
)
def xavier_uniform(
    inputs: int, outputs: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "inputs outputs"]:
    """Uniform weights of variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""
    return uniform((inputs, outputs), math.sqrt(6 / (inputs + outputs)), generator, dtype)


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \frac{2}{n_\text{in} + n_\text{out}}\right)",
    meaning="Activations keep their variance on the way forward and gradients on the way back.",
    intuition="Set the microphone so that the hall hears the singer as loud as the singer hears the hall.",
    symbols=_SYMBOLS,
    where={"inputs outputs": whole, "dtype": float_dtype},
)
def xavier_normal(
    inputs: int, outputs: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "inputs outputs"]:
    """Normal weights of variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""
    return normal((inputs, outputs), math.sqrt(2 / (inputs + outputs)), generator, dtype)


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \frac{2}{n_\text{in}}\right)",
    meaning="Activations keep their variance through ReLU, which sets half of them to zero.",
    intuition="If half the choir falls silent, the other half sings up to keep the volume.",
    symbols=_SYMBOLS | {"outputs=": "outputs of the layer"},
    where={"inputs outputs": whole, "dtype": float_dtype},
)
def he_normal(
    inputs: int, outputs: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "inputs outputs"]:
    """Normal weights of variance 2 / inputs (He et al., 2015)."""
    return normal((inputs, outputs), math.sqrt(2 / inputs), generator, dtype)


@equation(
    r"W_{ij} = \sigma \, \Phi^{-1}(u), \quad u \sim \mathcal U\left(\Phi(-c), \Phi(c)\right)",
    meaning="Each number is drawn from the normal distribution with its tails cut off.",
    intuition="A fair that turns away the very tall and the very short: the rest come as they are.",
    symbols={
        "shape=": "shape",
        r"std=\sigma": "σ, standard deviation before the cut",
        "cut=c": "c, how many standard deviations are kept on either side",
        "generator=": "random generator",
        "dtype=": "dtype",
        "W": "random numbers",
    },
    where={"std": not_negative, "cut": positive, "shape": sizes, "dtype": float_dtype},
)
def truncated_normal(
    shape: tuple[int, ...],
    std: float = 0.02,
    cut: float = 2.0,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "..."]:
    """Draw from a normal distribution within c standard deviations, by inverting its distribution function."""
    inside = math.erf(cut / math.sqrt(2))  # Φ(c) − Φ(−c); symmetric about zero, where floats are finest
    u = inside * (2 * draw(torch.rand, shape, generator, dtype) - 1)
    return (std * (math.sqrt(2) * torch.erfinv(u)).clamp(-cut, cut)).to(dtype)
