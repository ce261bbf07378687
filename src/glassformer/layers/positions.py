"""Position encodings added to hidden states, and position biases added to attention scores."""

from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.position_biases import alibi_bias, relative_position_bias, relative_position_bucket
from glassformer.equations.positions import sinusoidal_positions, sinusoidal_positions_2d
from glassformer.errors import ConfigError
from glassformer.layers.config import sizes_allowed


class SinusoidalPositions(nn.Module):
    """Sines and cosines of every wavelength, added to the embeddings; nothing is learned."""

    def __init__(self, layout: Literal["adjacent", "halves"] = "adjacent") -> None:
        super().__init__()
        self.layout: Literal["adjacent", "halves"] = layout

    def forward(self, x: Tensor, offset: int = 0, positions: Tensor | None = None) -> Tensor:
        """Add the encoding of these positions, or of 0, 1, 2 and so on, plus the offset."""
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        return add(x, sinusoidal_positions(positions + offset, x.shape[-1], layout=self.layout, dtype=x.dtype))


class SinusoidalPositions2D(nn.Module):
    """Sines and cosines of the row and the column of each patch, added to its vector; nothing is learned."""

    def __init__(self, side: int, dim: int) -> None:
        super().__init__()
        if dim % 4:
            raise ConfigError(f"dim is {dim}, wanted a multiple of 4 for sinusoidal positions in two dimensions")
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        """Add the encodings to vectors [batch, patches, dim]."""
        return add(x, sinusoidal_positions_2d(self.side, self.side, x.shape[-1], dtype=x.dtype, device=x.device))


class AlibiBias(nn.Module):
    """A penalty on attention scores that grows with distance, each head with its own slope."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, distances: Tensor, like: Tensor) -> Tensor:
        """Bias [heads, queries, keys] for these distances, in the dtype of another tensor."""
        return alibi_bias(distances, self.heads, dtype=like.dtype)


class RelativeBias(nn.Module):
    """A learned bias for each head and each bucket of distances, as in T5."""

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        with sizes_allowed():
            relative_position_bucket(torch.zeros(0, dtype=torch.long), bidirectional, buckets, max_distance)
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.max_distance = max_distance
        self.bidirectional = bidirectional

    def forward(self, distances: Tensor, like: Tensor) -> Tensor:
        """Bias [heads, queries, keys] for these distances."""
        return relative_position_bias(self.weight, distances, self.bidirectional, self.max_distance)
