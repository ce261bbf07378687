"""Rotary positions: turn queries and keys by an angle that grows with their place."""

from dataclasses import dataclass
from typing import Literal, TypedDict

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import scale
from glassformer.equations.rotary import rotary, rotary_frequencies
from glassformer.equations.rotary_scaling import (
    base_scaled_frequencies,
    linear_scaled_frequencies,
    llama3_scaled_frequencies,
    ntk_scaled_frequencies,
    yarn_scaled_frequencies,
    yarn_temperature,
)
from glassformer.layers.config import Config, Positive, Size, sizes_allowed
from glassformer.recording import MODE


class _Kind(TypedDict):
    dtype: torch.dtype
    device: torch.device


def _kind(like: Tensor) -> _Kind:
    """Frequencies are never coarser than float32: half precision cannot tell neighbouring angles apart."""
    return {"dtype": torch.float64 if like.dtype == torch.float64 else torch.float32, "device": like.device}


@dataclass(frozen=True, kw_only=True)
class RopeScaling(Config):
    """How rotary frequencies are stretched for a longer context; none of it by default."""

    @property
    def temperature(self) -> float:
        """What queries and keys are multiplied with after the turn."""
        return 1.0

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """The angle each pair turns by per place."""
        return rotary_frequencies(head_dim, base, **_kind(like))


@dataclass(frozen=True, kw_only=True)
class ThetaScaling(RopeScaling):
    """A larger base: slower turns, modest extension."""

    alpha: Positive

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies of the larger base."""
        return base_scaled_frequencies(head_dim, base, self.alpha, **_kind(like))


@dataclass(frozen=True, kw_only=True)
class LinearScaling(RopeScaling):
    """Position interpolation: every turn slowed by the same factor."""

    factor: Positive

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies divided by the factor."""
        return linear_scaled_frequencies(rotary_frequencies(head_dim, base, **_kind(like)), self.factor)


@dataclass(frozen=True, kw_only=True)
class NTKScaling(RopeScaling):
    """A base chosen so that the slowest pair is stretched by the factor and the fastest not at all."""

    factor: Positive

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies of the NTK-aware base."""
        return ntk_scaled_frequencies(head_dim, base, self.factor, **_kind(like))


@dataclass(frozen=True, kw_only=True)
class YarnScaling(RopeScaling):
    """Slow pairs interpolated, fast ones kept, a ramp between, and a temperature."""

    factor: Positive
    original_length: Size
    fast: Positive = 32.0
    slow: Positive = 1.0

    @property
    def temperature(self) -> float:
        """YaRN's attention temperature, shared by queries and keys."""
        return yarn_temperature(self.factor)

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies along the ramp."""
        plain = rotary_frequencies(head_dim, base, **_kind(like))
        return yarn_scaled_frequencies(plain, base, self.factor, self.original_length, self.fast, self.slow)


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling(RopeScaling):
    """Long waves stretched, short ones kept, a smooth passage between, as in Llama 3.1."""

    factor: Positive
    low_factor: Positive = 1.0
    high_factor: Positive = 4.0
    original_length: Size = 8192

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies by wavelength."""
        plain = rotary_frequencies(head_dim, base, **_kind(like))
        return llama3_scaled_frequencies(plain, self.factor, self.low_factor, self.high_factor, self.original_length)


ROPE_SCALINGS: dict[str, type[RopeScaling]] = {
    "theta": ThetaScaling,
    "linear": LinearScaling,
    "ntk": NTKScaling,
    "yarn": YarnScaling,
    "llama3": Llama3Scaling,
}


class Rotary(nn.Module):
    """Turn each pair of a query or key by its place times the pair's frequency."""

    def __init__(
        self,
        head_dim: int,
        theta: float = 10000.0,
        scaling: RopeScaling | None = None,
        layout: Literal["adjacent", "halves"] = "halves",
    ) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.theta = theta
        self.scaling = scaling or RopeScaling()
        self.layout: Literal["adjacent", "halves"] = layout
        with sizes_allowed():
            self.scaling.frequencies(head_dim, theta, torch.empty(0, device="cpu"))
        self._known: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn rows [batch, heads, seq, head_dim] that stand at these places [seq] or [batch, seq]."""
        frequencies = self._frequencies(x)
        places = positions if positions.dim() == 1 else positions.unsqueeze(-2)
        turned = rotary(x, places, self.theta, frequencies, self.layout)
        return turned if self.scaling.temperature == 1.0 else scale(turned, self.scaling.temperature)

    def _frequencies(self, x: Tensor) -> Tensor:
        """The angle each pair turns by per place: the same in every run, so kept while nobody looks."""
        if MODE.dispatcher is not None or torch.compiler.is_compiling():
            return self.scaling.frequencies(self.head_dim, self.theta, x)
        key = x.dtype, x.device
        if key not in self._known:
            self._known[key] = self.scaling.frequencies(self.head_dim, self.theta, x)
        return self._known[key]
