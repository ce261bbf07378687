"""Sparse attention patterns: sliding window, block-sparse, dilated."""

from dataclasses import dataclass

from torch import Tensor

from glassformer.equations.block_attention import block_attention
from glassformer.equations.masks import position_mask
from glassformer.equations.sparse_masks import block_sparse_mask, dilated_mask, sliding_window_mask
from glassformer.equations.window_attention import window_attention
from glassformer.layers.block import Bidirectional
from glassformer.layers.config import Size


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(Bidirectional):
    """A query may attend to the last `window` positions, its own included."""

    window: Size

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, cap: float | None
    ) -> Tensor | None:
        """Attention in time and memory proportional to the window."""
        return window_attention(query, key, value, self.window, 1, mask, scale, cap)

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity outside the window."""
        return sliding_window_mask(queries, keys, self.window, dtype=like.dtype, device=like.device)

    @property
    def window_size(self) -> int | None:
        """The window."""
        return self.window

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True inside the window."""
        return position_mask(distances, keys, self.window)


@dataclass(frozen=True, kw_only=True)
class BlockSparse(Bidirectional):
    """A query may attend to its own block so far and to the last position of each earlier block."""

    block_size: Size

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, cap: float | None
    ) -> Tensor | None:
        """Attention in time and memory proportional to the block and to the number of blocks."""
        return block_attention(query, key, value, self.block_size, mask, scale, cap)

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity outside the pattern."""
        return block_sparse_mask(queries, keys, self.block_size, dtype=like.dtype, device=like.device)

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True inside the pattern."""
        return position_mask(distances, keys, block=self.block_size)


@dataclass(frozen=True, kw_only=True)
class Dilated(Bidirectional):
    """A query may attend to `window` positions back, `dilation` apart."""

    window: Size
    dilation: Size

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, cap: float | None
    ) -> Tensor | None:
        """Attention in time and memory proportional to the window."""
        return window_attention(query, key, value, self.window, self.dilation, mask, scale, cap)

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity between the positions attended to."""
        return dilated_mask(queries, keys, self.window, self.dilation, dtype=like.dtype, device=like.device)

    @property
    def window_size(self) -> int | None:
        """Distance to the farthest position attended to, plus one."""
        return (self.window - 1) * self.dilation + 1

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True at the positions attended to."""
        return position_mask(distances, keys, self.window, self.dilation)
