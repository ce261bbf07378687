"""Where a token stands: added to its row, or counted in the scores as a bias."""

from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.embedding import embed
from glassformer.equations.masks import aligned_positions, relative_positions
from glassformer.equations.position_biases import alibi_bias, relative_position_bias, relative_position_bucket
from glassformer.equations.positions import sinusoidal_positions
from glassformer.layers.config import sizes_allowed


class SinusoidalPositions(nn.Module):
    """Waves of every length added to the rows; nothing learned, no longest sequence."""

    def __init__(self, layout: Literal["adjacent", "halves"] = "adjacent") -> None:
        super().__init__()
        self.layout: Literal["adjacent", "halves"] = layout

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """Add the waves of the positions from `start` on, or of those given, counted from there."""
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        return add(x, sinusoidal_positions(positions + start, x.shape[-1], layout=self.layout, dtype=x.dtype))


class LearnedPositions(nn.Module):
    """One learned row for each place, added to the rows."""

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, dim))

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """Add the rows of the positions from `start` on, or of those given, counted from there."""
        if positions is not None:
            # padding stands before the first place, and what is written beyond the last is never read
            return add(x, embed(self.weight, (positions + start).clamp(0, len(self.weight) - 1)))
        return add(x, embed(self.weight, torch.arange(start, start + x.shape[-2], device=x.device)))


class NoPositions(nn.Module):
    """Nothing added: order does not matter, or something else says where a token stands."""

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """The rows as they are."""
        return x


class AlibiBias(nn.Module):
    """The farther a key, the lower its score, each head with its own slope."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, queries: int, keys: int, like: Tensor) -> Tensor:
        """What to add to the scores, in the type and on the device of another tensor."""
        return self.at(relative_positions(*aligned_positions(queries, keys, like.device)), like)

    def at(self, distances: Tensor, like: Tensor) -> Tensor:
        """The same for tokens that stand anywhere."""
        return alibi_bias(distances, self.heads, dtype=like.dtype)


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances, as in T5."""

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        with sizes_allowed():
            relative_position_bucket(torch.zeros(0, dtype=torch.long), bidirectional, buckets, max_distance)
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.max_distance = max_distance
        self.bidirectional = bidirectional

    def forward(self, queries: int, keys: int, like: Tensor) -> Tensor:
        """What to add to the scores."""
        return self.at(relative_positions(*aligned_positions(queries, keys, like.device)), like)

    def at(self, distances: Tensor, like: Tensor) -> Tensor:
        """The same for tokens that stand anywhere."""
        return relative_position_bias(self.weight, distances, self.bidirectional, self.max_distance)
