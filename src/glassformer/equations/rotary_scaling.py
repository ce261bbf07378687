"""RoPE scaling for longer contexts: linear, by base, NTK-aware, YaRN and Llama 3."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import float_dtype, positive
from glassformer.equations.rotary import EXACT, rotary_frequencies
from glassformer.equations.special_ranges import even


@equation(
    r"\theta'_i = \theta_i / s",
    meaning="Every pair rotates more slowly by the same factor, as if positions were closer together.",
    intuition="A ruler printed smaller: twice as many marks fit on the same page.",
    symbols={
        r"frequencies=\theta": "radians per position θ, one for each pair",
        "factor=s": "how many times longer the context becomes, s",
        r"scaled=\theta'": "slower frequencies θ'",
    },
    flops=lambda pairs: pairs,
    where={"factor": positive},
    upcast=True,
)
def linear_scaled_frequencies(frequencies: Float[Tensor, " pairs"], factor: float) -> Float[Tensor, " pairs"]:
    """Extend the context by position interpolation (Chen et al., 2023)."""
    return frequencies / factor


@linear_scaled_frequencies.def_gradient(r"\bar\theta_i = \bar\theta'_i / s")
def _linear_scaled_frequencies_gradient(scaled_bar: Tensor, factor: float) -> Tensor:
    return scaled_bar / factor


@linear_scaled_frequencies.def_cell
def _linear_scaled_frequencies_cell(index: tuple[int, ...], frequencies: Tensor, factor: float) -> str:
    return f"{number(frequencies[index])} / {number(factor)}"


@equation(
    r"\theta_i = (\alpha b)^{-2i/d}",
    meaning="A larger base slows every pair but the first, the slow pairs most.",
    intuition="Longer gears behind a motor that keeps its speed: the last wheel slows down most.",
    symbols={
        "head_dim=d": "dimension d of a head, even",
        "base=b": "base b before scaling",
        r"alpha=\alpha": "factor on the base",
        "dtype=": "dtype",
        "device=": "device",
        r"theta=\theta": "radians per position, one for each pair",
    },
    where={"head_dim": even, "base alpha": positive, "dtype": float_dtype},
)
def base_scaled_frequencies(
    head_dim: int,
    base: float,
    alpha: float,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, " pairs"]:
    """Extend the context modestly by a larger rotary base (Xiong et al., 2023)."""
    return rotary_frequencies(head_dim, alpha * base, dtype, device)


@base_scaled_frequencies.def_cell
def _base_scaled_frequencies_cell(index: tuple[int, ...], head_dim: int, base: float, alpha: float) -> str:
    return f"({number(alpha, EXACT)}·{number(base, EXACT)})^(−2·{index[0]}/{head_dim})"


@equation(
    r"\theta_i = \left(b\, s^{d/(d-2)}\right)^{-2i/d}",
    meaning="The base grows just so far that the slowest pair is slowed by the factor and the fastest not at all.",
    intuition="A rubber band held at one end: the far end moves the whole way, the near end stays.",
    symbols={
        "head_dim=d": "dimension d of a head, even and above 2",
        "base=b": "base b before scaling",
        "factor=s": "how many times longer the context becomes, s",
        "dtype=": "dtype",
        "device=": "device",
        r"theta=\theta": "radians per position, one for each pair",
    },
    where={"head_dim": even, "base factor": positive, "dtype": float_dtype},
)
def ntk_scaled_frequencies(
    head_dim: int,
    base: float,
    factor: float,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, " pairs"]:
    """Extend the context by the NTK-aware change of base (bloc97, 2023)."""
    return rotary_frequencies(head_dim, base * factor ** (head_dim / (head_dim - 2)), dtype, device)


@ntk_scaled_frequencies.def_cell
def _ntk_scaled_frequencies_cell(index: tuple[int, ...], head_dim: int, base: float, factor: float) -> str:
    scaled = f"{number(base, EXACT)}·{number(factor, EXACT)}^({head_dim}/({head_dim} − 2))"
    return f"({scaled})^(−2·{index[0]}/{head_dim})"


@ntk_scaled_frequencies.def_check
def _ntk_scaled_frequencies_check(head_dim: int) -> None:
    ntk_scaled_frequencies.require(head_dim > 2, "head_dim", head_dim, "above 2: a single pair cannot be stretched")


@equation(
    r"\theta'_i = (1 - r_i)\, \theta_i + r_i\, \theta_i / s, \quad"
    r" r_i = \min\left(1, \max\left(0, \frac{i - c(\beta_f)}{c(\beta_s) - c(\beta_f)}\right)\right), \quad"
    r" c(\beta) = \frac{d \ln(L / 2 \pi \beta)}{2 \ln b}",
    meaning="High frequencies stay, low ones are interpolated, and those between are a mixture, pair by pair.",
    intuition="Widening a photograph: faces keep their proportions and only the sky is stretched.",
    symbols={
        r"frequencies=\theta": "radians per position θ, one for each of the d/2 pairs",
        "base=b": "base b that they were made with",
        "factor=s": "how many times longer the context becomes, s",
        "original_length=L": "context L that the model was trained on",
        r"fast=\beta_f": "pairs that make at least this many turns, β_f, within L stay",
        r"slow=\beta_s": "pairs that make at most this many turns, β_s, within L are interpolated",
        "truncate=": "whether the ends of the ramp move outward to whole pairs",
        r"scaled=\theta'": "mixed frequencies θ'",
    },
    flops=lambda pairs: 8 * pairs,
    where={"base factor original_length fast slow": positive},
    upcast=True,
)
def yarn_scaled_frequencies(
    frequencies: Float[Tensor, " pairs"],
    base: float,
    factor: float,
    original_length: int,
    fast: float = 32.0,
    slow: float = 1.0,
    truncate: bool = True,
) -> Float[Tensor, " pairs"]:
    """Extend the context pair by pair (YaRN: Peng et al., 2023)."""
    low, high = _yarn_ramp(2 * frequencies.shape[-1], base, original_length, fast, slow, truncate)
    i = torch.arange(frequencies.shape[-1], dtype=frequencies.dtype, device=frequencies.device)
    r = ((i - low) / (high - low)).clamp(0, 1)
    return (1 - r) * frequencies + r * frequencies / factor


def _yarn_ramp(
    d: int, base: float, original_length: int, fast: float, slow: float, truncate: bool
) -> tuple[float, float]:
    """Between which pairs the ramp rises: c(β) of the formula for both ends, kept within the head."""
    low, high = (d * math.log(original_length / (2 * math.pi * beta)) / (2 * math.log(base)) for beta in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    return float(low), float(max(high, low + 0.001))


@yarn_scaled_frequencies.def_gradient(r"\bar\theta_i = (1 - r_i)\, \bar\theta'_i + r_i\, \bar\theta'_i / s")
def _yarn_scaled_frequencies_gradient(
    scaled_bar: Tensor, base: float, factor: float, original_length: int, fast: float, slow: float, truncate: bool
) -> Tensor:
    return yarn_scaled_frequencies.fn(scaled_bar, base, factor, original_length, fast, slow, truncate)


@yarn_scaled_frequencies.def_cell
def _yarn_scaled_frequencies_cell(
    index: tuple[int, ...],
    frequencies: Tensor,
    base: float,
    factor: float,
    original_length: int,
    fast: float,
    slow: float,
    truncate: bool,
) -> str:
    ends = _yarn_ramp(2 * frequencies.shape[-1], base, original_length, fast, slow, truncate)
    low, high = (number(end, EXACT) for end in ends)
    theta, r = number(frequencies[index]), f"min(1, max(0, ({index[0]} − {low}) / ({high} − {low})))"
    return f"(1 − {r})·{theta} + {r}·{theta} / {number(factor)}"


@yarn_scaled_frequencies.def_check
def _yarn_scaled_frequencies_check(base: float, fast: float, slow: float) -> None:
    require = yarn_scaled_frequencies.require
    require(base > 1, "base", base, "above 1, so that later pairs rotate more slowly")
    require(fast > slow, "fast", fast, f"more turns than slow = {slow}")


@equation(
    r"t = 0.1 \ln \max(s, 1) + 1",
    meaning="A longer context flattens attention; multiplying queries and keys by this sharpens it again.",
    intuition="Turning up the contrast a little on a picture that was enlarged.",
    symbols={
        "factor=s": "how many times longer the context becomes, s",
        "t": "multiplier for queries and for keys, so scores grow by its square",
    },
    where={"factor": positive},
)
def yarn_temperature(factor: float) -> float:
    """YaRN's attention temperature, which sharpens attention after extending the context (Peng et al., 2023)."""
    return 0.1 * math.log(max(factor, 1.0)) + 1.0


yarn_temperature.def_cell(lambda index, factor: f"0.1·ln(max({number(factor)}, 1)) + 1")


@equation(
    r"\theta'_i = \theta_i \left(\frac{1 - r_i}{s} + r_i\right), \quad"
    r" r_i = \min\left(1, \max\left(0, \frac{L \theta_i / 2 \pi - l}{h - l}\right)\right)",
    meaning="Pairs that turn often within the old context stay, slow ones are interpolated, those between a mixture.",
    intuition="A long coat cut from a short pattern: collar and cuffs keep their size, only the back is lengthened.",
    symbols={
        r"frequencies=\theta": "radians per position θ, one for each pair",
        "factor=s": "how many times longer the context becomes, s",
        "low_factor=l": "pairs that make at most l turns within L are interpolated",
        "high_factor=h": "pairs that make at least h turns within L stay",
        "original_length=L": "context L that the model was trained on",
        r"scaled=\theta'": "mixed frequencies θ'",
    },
    flops=lambda pairs: 8 * pairs,
    where={"factor low_factor original_length": positive},
    upcast=True,
)
def llama3_scaled_frequencies(
    frequencies: Float[Tensor, " pairs"], factor: float, low_factor: float, high_factor: float, original_length: int
) -> Float[Tensor, " pairs"]:
    """Extend the context by the number of turns each pair makes (Llama 3.1: Grattafiori et al., 2024)."""
    turns = frequencies * (original_length / (2 * math.pi))
    r = ((turns - low_factor) / (high_factor - low_factor)).clamp(0, 1)
    return frequencies * ((1 - r) / factor + r)


@llama3_scaled_frequencies.def_gradient(
    r"\bar\theta_i = \bar\theta'_i \left(\frac{1 - r_i}{s} + r_i +"
    r" [0 < r_i < 1]\, \frac{L \theta_i}{2 \pi (h - l)} \left(1 - \frac{1}{s}\right)\right)"
)
def _llama3_scaled_frequencies_gradient(
    scaled_bar: Tensor,
    frequencies: Tensor,
    factor: float,
    low_factor: float,
    high_factor: float,
    original_length: int,
) -> Tensor:
    turns = frequencies * (original_length / (2 * math.pi))
    ramp = (turns - low_factor) / (high_factor - low_factor)
    r = ramp.clamp(0, 1)
    tilt = turns / (high_factor - low_factor) * (1 - 1 / factor)
    return scaled_bar * ((1 - r) / factor + r + torch.where(r == ramp, tilt, 0))


@llama3_scaled_frequencies.def_cell
def _llama3_scaled_frequencies_cell(
    index: tuple[int, ...],
    frequencies: Tensor,
    factor: float,
    low_factor: float,
    high_factor: float,
    original_length: int,
) -> str:
    theta, low, high = number(frequencies[index]), number(low_factor), number(high_factor)
    r = f"min(1, max(0, ({theta}·{original_length} / (2·π) − {low}) / ({high} − {low})))"
    return f"{theta}·((1 − {r}) / {number(factor)} + {r})"


@llama3_scaled_frequencies.def_check
def _llama3_scaled_frequencies_check(low_factor: float, high_factor: float) -> None:
    more = high_factor > low_factor
    llama3_scaled_frequencies.require(more, "high_factor", high_factor, f"more turns than low_factor = {low_factor}")
