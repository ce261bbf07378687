"""Who may look at whom: everything, the past, a window, blocks, every other token."""

from dataclasses import dataclass

from torch import Tensor

from glassformer.equations.masks import position_mask, sliding_window_mask
from glassformer.equations.sparse_masks import block_sparse_mask, dilated_mask
from glassformer.errors import ModelError
from glassformer.layers.config import Config, Size


@dataclass(frozen=True, kw_only=True)
class Bidirectional(Config):
    """Every query may look at every key."""

    causal: bool = False

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """What to add to the scores beyond causality: nothing."""
        return None

    @property
    def window_size(self) -> int | None:
        """How many places back a query looks, its own among them; None for all of them."""
        return None

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True where a query may look, from distances and the keys' places; what lies ahead cannot be cached."""
        if not self.causal:
            raise ModelError(f"{type(self).__name__}: looks ahead, so it cannot be run token by token from a cache")
        return position_mask(distances, keys)


@dataclass(frozen=True, kw_only=True)
class Causal(Bidirectional):
    """A query may look at its own place and the places before it."""

    causal: bool = True


@dataclass(frozen=True, kw_only=True)
class SlidingWindow(Bidirectional):
    """A query may look at the last few places, its own among them."""

    window: Size

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
    """A query may look at its own block so far and at the last place of each earlier block."""

    block_size: Size

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity outside the pattern."""
        return block_sparse_mask(queries, keys, self.block_size, dtype=like.dtype, device=like.device)

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True inside the pattern."""
        return position_mask(distances, keys, block=self.block_size)


@dataclass(frozen=True, kw_only=True)
class Dilated(Bidirectional):
    """A query may look at every few places back, a number of them."""

    window: Size
    dilation: Size

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity between the places it looks at."""
        return dilated_mask(queries, keys, self.window, self.dilation, dtype=like.dtype, device=like.device)

    @property
    def window_size(self) -> int | None:
        """From the query to the farthest place it looks at."""
        return (self.window - 1) * self.dilation + 1

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True at the places it looks at."""
        return position_mask(distances, keys, self.window, self.dilation)
