"""Token embeddings and learned position embeddings."""

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.embedding import embed
from glassformer.equations.heads import slice_axis


class Embedding(nn.Module):
    """One learned vector for each token id."""

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, dim))

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors [batch, seq, dim] of token ids [batch, seq]."""
        return embed(self.weight, ids)


class LearnedPositions(nn.Module):
    """One learned vector for each position, added to the embeddings."""

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, dim))

    def forward(self, x: Tensor, offset: int = 0, positions: Tensor | None = None) -> Tensor:
        """Add the vectors of these positions, or of 0, 1, 2 and so on, plus the offset."""
        if positions is None:
            return add(x, slice_axis(self.weight, 0, offset, offset + x.shape[-2]))
        # padding stands before the first position, and what is written beyond the last is never read
        return add(x, embed(self.weight, (positions + offset).clamp(0, len(self.weight) - 1)))
