"""Packing: several sequences in one row, which attend to themselves alone, so that little of a batch is padding."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.equation import MODE
from glassformer.equations.packed_attention import document_mask, document_positions, packed_attention, packed_kernel


@dataclass(frozen=True)
class Documents:
    """Which queries attend to which keys in packed rows: the bounds [batch, bounds] of the documents of both.

    `longest` is the most tokens of a document, for which kernels make room; a whole row if it is not known.
    """

    queries: Tensor
    keys: Tensor
    longest: int | None = None

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None, dropout: float
    ) -> Tensor | None:
        """Attention within each document, or None where no kernel drops weights and is not looked at."""
        if not dropout:
            return packed_attention(query, key, value, self.queries, self.keys, self.longest, causal, scale)
        if MODE.dispatcher is not None and not torch.compiler.is_compiling():  # a tape shows what is dropped
            return None
        return packed_kernel(query, key, value, (self.queries, self.keys), self.longest, causal, scale, dropout)

    def mask(self, query: Tensor, key: Tensor, causal: bool) -> Tensor:
        """The additive mask [batch, 1, queries, keys] that has the same effect."""
        return document_mask(self.queries, self.keys, query.shape[-2], key.shape[-2], causal, dtype=query.dtype)


@dataclass(frozen=True)
class PackedPairs:
    """Where the sources and the targets of packed rows begin: bounds [batch, bounds], and the most tokens of one."""

    sources: Tensor
    targets: Tensor
    longest: int | None = None

    def most(self) -> int:
        """The most tokens of a sequence."""
        return max(int(bounds.diff().max()) for bounds in (self.sources, self.targets))

    @property
    def masks(self) -> tuple[Documents, Documents, Documents]:
        """Sources and targets attend to themselves, and each target to its source."""
        sides = ((self.sources, self.sources), (self.targets, self.targets), (self.targets, self.sources))
        in_source, in_target, across = (Documents(*side, self.longest) for side in sides)
        return in_source, in_target, across

    def positions(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Positions [batch, seq] of source and target tokens, from 0 in each sequence."""
        return document_positions(self.sources, source.shape[1]), document_positions(self.targets, target.shape[1])

    def twice(self) -> "PackedPairs":
        """For every row of the batch and the same rows once more."""
        return PackedPairs(torch.cat([self.sources] * 2), torch.cat([self.targets] * 2), self.longest)
