"""Who may look at whom: everything, the past, a window, blocks, every other token."""

from dataclasses import dataclass

from torch import Tensor

from glassformer.equations.masks import block_sparse_mask, dilated_mask, sliding_window_mask


@dataclass(frozen=True, kw_only=True)
class Everything:
    """Every query may look at every key."""

    causal: bool = False

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """What to add to the scores beyond causality: nothing."""
        return None


@dataclass(frozen=True, kw_only=True)
class Past(Everything):
    """A query may look at its own place and the places before it."""

    causal: bool = True


@dataclass(frozen=True, kw_only=True)
class Window(Everything):
    """A query may look at the last few places, its own among them."""

    window: int

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity outside the window."""
        return sliding_window_mask(queries, keys, self.window, dtype=like.dtype, device=like.device)


@dataclass(frozen=True, kw_only=True)
class Blocks(Everything):
    """A query may look at its own block so far and at the last place of each earlier block."""

    block: int

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity outside the pattern."""
        return block_sparse_mask(queries, keys, self.block, dtype=like.dtype, device=like.device)


@dataclass(frozen=True, kw_only=True)
class Dilated(Everything):
    """A query may look at every few places back, a number of them."""

    window: int
    dilation: int

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Minus infinity between the places it looks at."""
        return dilated_mask(queries, keys, self.window, self.dilation, dtype=like.dtype, device=like.device)
