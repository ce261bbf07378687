"""Where parameters begin: random numbers whose spread keeps signals neither fading nor exploding."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.ranges import Require, axes, float_type, not_negative, positive, whole


@equation(
    r"W_{ij} \sim \mathcal U\left(-a, a\right)",
    meaning="Each number is drawn from an interval around zero, every place in it as likely as any other.",
    intuition="Rain on a pavement: every spot is as likely to be hit as every other.",
    symbols={
        "shape": "sizes of the axes",
        "bound": "a, largest size",
        "generator": "source of randomness",
        "dtype": "number type",
        "W": "random numbers",
    },
)
def uniform(
    shape: tuple[int, ...],
    bound: float,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "..."]:
    """Draw numbers evenly between −a and a."""
    return (bound * (2 * _draw(torch.rand, shape, generator, dtype) - 1)).to(dtype)


@uniform.def_check
def _uniform_check(shape: tuple[int, ...], bound: float, dtype: torch.dtype) -> None:
    not_negative(uniform.require, bound=bound)
    _check_tensor(uniform.require, shape, dtype)


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \sigma^2\right)",
    meaning="Each number is drawn from the bell curve around zero.",
    intuition="Darts thrown at a line: most land close, few land far away.",
    symbols={
        "shape": "sizes of the axes",
        "std": "σ, standard deviation",
        "generator": "source of randomness",
        "dtype": "number type",
        "W": "random numbers",
    },
)
def normal(
    shape: tuple[int, ...],
    std: float = 0.02,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "..."]:
    """Draw small random numbers, by default as wide as GPT-2's (Radford et al., 2019)."""
    return (std * _draw(torch.randn, shape, generator, dtype)).to(dtype)


@normal.def_check
def _normal_check(shape: tuple[int, ...], std: float, dtype: torch.dtype) -> None:
    not_negative(normal.require, std=std)
    _check_tensor(normal.require, shape, dtype)


@equation(
    r"W_{ij} \sim \mathcal U\left(-a, a\right), \quad a = \sqrt{\frac{6}{n_\text{in} + n_\text{out}}}",
    meaning="Weights are spread so that signals keep their size on the way forward and gradients on the way back.",
    intuition="The more people talk at once, the softer each must speak for the room to stay as loud as before.",
    symbols={
        "inputs": "inputs of the layer",
        "outputs": "outputs of the layer",
        "generator": "source of randomness",
        "dtype": "number type",
        "W": "weights",
    },
)
def xavier_uniform(
    inputs: int, outputs: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "inputs outputs"]:
    """Even weights of variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""
    return uniform((inputs, outputs), math.sqrt(6 / (inputs + outputs)), generator, dtype)


@xavier_uniform.def_check
def _xavier_uniform_check(inputs: int, outputs: int, dtype: torch.dtype) -> None:
    _check_weights(xavier_uniform.require, inputs, outputs, dtype)


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \frac{2}{n_\text{in} + n_\text{out}}\right)",
    meaning="Weights are spread so that signals keep their size on the way forward and gradients on the way back.",
    intuition="Set the microphone so that the hall hears the singer as loud as the singer hears the hall.",
    symbols={
        "inputs": "inputs of the layer",
        "outputs": "outputs of the layer",
        "generator": "source of randomness",
        "dtype": "number type",
        "W": "weights",
    },
)
def xavier_normal(
    inputs: int, outputs: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "inputs outputs"]:
    """Bell-shaped weights of variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""
    return normal((inputs, outputs), math.sqrt(2 / (inputs + outputs)), generator, dtype)


@xavier_normal.def_check
def _xavier_normal_check(inputs: int, outputs: int, dtype: torch.dtype) -> None:
    _check_weights(xavier_normal.require, inputs, outputs, dtype)


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \frac{2}{n_\text{in}}\right)",
    meaning="Weights are spread so that signals keep their size through ReLU, which silences half of them.",
    intuition="If half the choir falls silent, the other half sings up to keep the volume.",
    symbols={
        "inputs": "inputs of the layer",
        "outputs": "outputs of the layer",
        "generator": "source of randomness",
        "dtype": "number type",
        "W": "weights",
    },
)
def he_normal(
    inputs: int, outputs: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "inputs outputs"]:
    """Bell-shaped weights of variance 2 / inputs (He et al., 2015)."""
    return normal((inputs, outputs), math.sqrt(2 / inputs), generator, dtype)


@he_normal.def_check
def _he_normal_check(inputs: int, outputs: int, dtype: torch.dtype) -> None:
    _check_weights(he_normal.require, inputs, outputs, dtype)


@equation(
    r"W_{ij} \sim \mathcal N\left(0, \frac{\sigma^2}{2 L}\right)",
    meaning="Weights that write into the residual stream start smaller the more layers write into it.",
    intuition="Many cooks, one pot: each adds less salt, so that the soup tastes the same.",
    symbols={
        "shape": "sizes of the axes",
        "std": "σ, standard deviation of the other weights",
        "layers": "L, layers of the model, each of which writes twice",
        "generator": "source of randomness",
        "dtype": "number type",
        "W": "weights",
    },
)
def scaled_normal(
    shape: tuple[int, ...],
    std: float,
    layers: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "..."]:
    """Weights of the projections at the end of each residual branch (Radford et al., 2019)."""
    return normal(shape, std / math.sqrt(2 * layers), generator, dtype)


@scaled_normal.def_check
def _scaled_normal_check(shape: tuple[int, ...], std: float, layers: int, dtype: torch.dtype) -> None:
    not_negative(scaled_normal.require, std=std)
    whole(scaled_normal.require, layers=layers)
    _check_tensor(scaled_normal.require, shape, dtype)


@equation(
    r"W_{ij} = \sigma \, \Phi^{-1}(u), \quad u \sim \mathcal U\left(\Phi(-c), \Phi(c)\right)",
    meaning="Each number is drawn from the bell curve with its tails cut off.",
    intuition="A fair that turns away the very tall and the very short: the rest come as they are.",
    symbols={
        "shape": "sizes of the axes",
        "std": "σ, standard deviation before the cut",
        "cut": "c, how many standard deviations are kept on either side",
        "generator": "source of randomness",
        "dtype": "number type",
        "W": "random numbers",
    },
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
    u = inside * (2 * _draw(torch.rand, shape, generator, dtype) - 1)
    return (std * (math.sqrt(2) * torch.erfinv(u)).clamp(-cut, cut)).to(dtype)


@truncated_normal.def_check
def _truncated_normal_check(shape: tuple[int, ...], std: float, cut: float, dtype: torch.dtype) -> None:
    not_negative(truncated_normal.require, std=std)
    positive(truncated_normal.require, cut=cut)
    _check_tensor(truncated_normal.require, shape, dtype)


def _draw(
    source: Callable[..., Tensor], shape: tuple[int, ...], generator: torch.Generator | None, dtype: torch.dtype
) -> Tensor:
    """Fresh random numbers where the generator lives; those meant for half precision are rounded only at the end."""
    device = None if generator is None else generator.device
    return source(shape, generator=generator, device=device, dtype=torch.promote_types(dtype, torch.float32))


def _check_tensor(require: Require, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    axes(require, shape)
    float_type(require, dtype)


def _check_weights(require: Require, inputs: int, outputs: int, dtype: torch.dtype) -> None:
    whole(require, inputs=inputs, outputs=outputs)
    _check_tensor(require, (inputs, outputs), dtype)
