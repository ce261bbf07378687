"""Tokens to rows."""

import torch
from torch import Tensor, nn

from glassformer.equations.embedding import embed


class Embedding(nn.Module):
    """One learned row for each token."""

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, dim))

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of these tokens."""
        return embed(self.weight, ids)
