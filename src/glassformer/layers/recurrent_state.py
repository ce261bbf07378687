"""What a recurrent network carries from token to token, and the same for every beam of a search."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.layers.cache import DecoderState


@dataclass(kw_only=True)
class RecurrentState(DecoderState):
    """State of a recurrent network: the tensors of every layer's cell, none before the first token."""

    cells: list[tuple[Tensor, ...] | None]

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order."""
        self.cells = [None if cell is None else tuple(part[rows] for part in cell) for cell in self.cells]
        super().select(rows)


@dataclass(kw_only=True)
class RecurrentBeamState(RecurrentState):
    """State of a recurrent network for every beam, those of one sequence side by side."""

    beams: int

    def follow(self, parents: Tensor) -> None:
        """Every beam continues from the state of its parent [batch, beams]."""
        self._take(torch.arange(len(parents), device=parents.device), parents)

    def select(self, rows: Tensor) -> None:
        """Select these sequences in this order, each with its beams."""
        self._take(rows, torch.arange(self.beams, device=rows.device))

    def _take(self, rows: Tensor, ways: Tensor) -> None:
        super().select((rows[:, None] * self.beams + ways).flatten())
