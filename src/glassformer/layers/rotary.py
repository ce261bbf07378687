"""Rotary position embeddings (RoPE): rotate queries and keys by an angle proportional to their position."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equation import MODE
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


def _dtype(like: Tensor) -> torch.dtype:
    """Frequencies are at least float32: half precision cannot tell neighboring angles apart."""
    return torch.float64 if like.dtype == torch.float64 else torch.float32


@dataclass(frozen=True, kw_only=True)
class RopeScaling(Config):
    """How RoPE frequencies are scaled for a longer context; this class leaves them as they are."""

    @property
    def temperature(self) -> float:
        """Factor on queries and keys after the rotation."""
        return 1.0

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Rotation of each pair per position."""
        return rotary_frequencies(head_dim, base, dtype=_dtype(like), device=like.device)


@dataclass(frozen=True, kw_only=True)
class ThetaScaling(RopeScaling):
    """A larger theta: slower rotations, a modest extension."""

    alpha: Positive

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies of the larger theta."""
        return base_scaled_frequencies(head_dim, base, self.alpha, dtype=_dtype(like), device=like.device)


@dataclass(frozen=True, kw_only=True)
class LinearScaling(RopeScaling):
    """Position interpolation: every rotation slowed by the same factor."""

    factor: Positive

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies divided by the factor."""
        return linear_scaled_frequencies(super().frequencies(head_dim, base, like), self.factor)


@dataclass(frozen=True, kw_only=True)
class NTKScaling(RopeScaling):
    """NTK-aware scaling: the slowest pair is slowed by the factor and the fastest not at all."""

    factor: Positive

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies of the NTK-aware theta."""
        return ntk_scaled_frequencies(head_dim, base, self.factor, dtype=_dtype(like), device=like.device)


@dataclass(frozen=True, kw_only=True)
class YarnScaling(RopeScaling):
    """YaRN: slow pairs interpolated, fast ones unchanged, a ramp between, and an attention temperature."""

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
        plain = super().frequencies(head_dim, base, like)
        return yarn_scaled_frequencies(plain, base, self.factor, self.original_length, self.fast, self.slow)


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling(RopeScaling):
    """Llama 3.1: long wavelengths scaled, short ones unchanged, interpolated between."""

    factor: Positive
    low_factor: Positive = 1.0
    high_factor: Positive = 4.0
    original_length: Size = 8192

    def frequencies(self, head_dim: int, base: float, like: Tensor) -> Tensor:
        """Frequencies by wavelength."""
        plain = super().frequencies(head_dim, base, like)
        return llama3_scaled_frequencies(plain, self.factor, self.low_factor, self.high_factor, self.original_length)


ROPE_SCALINGS: dict[str, type[RopeScaling]] = {
    "theta": ThetaScaling,
    "linear": LinearScaling,
    "ntk": NTKScaling,
    "yarn": YarnScaling,
    "llama3": Llama3Scaling,
}


class Rotary(nn.Module):
    """Rotate each pair of a query or key by its position times the pair's frequency."""

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
        """Rotate queries or keys [batch, heads, seq, head_dim] at positions [seq] or [batch, seq]."""
        frequencies = self._frequencies(x)
        positions = positions if positions.dim() == 1 else positions.unsqueeze(-2)
        rotated = rotary(x, positions, self.theta, frequencies, self.layout)
        return rotated if self.scaling.temperature == 1.0 else scale(rotated, self.scaling.temperature)

    def _frequencies(self, x: Tensor) -> Tensor:
        """Rotation of each pair per position; cached unless a tape records how it was computed."""
        if MODE.dispatcher is not None or torch.compiler.is_compiling():
            return self.scaling.frequencies(self.head_dim, self.theta, x)
        key = x.dtype, x.device
        if key not in self._known:
            self._known[key] = self.scaling.frequencies(self.head_dim, self.theta, x)
        return self._known[key]
