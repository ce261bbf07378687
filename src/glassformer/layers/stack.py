"""Blocks in a row, with what they share: a bias by distance at the start, a norm at the end."""

from collections.abc import Sequence

from torch import Tensor, nn

from glassformer.equations.places import cut_rows
from glassformer.layers.block import Block
from glassformer.layers.cache import Cache, Moment, Slots
from glassformer.layers.positions import AlibiBias, RelativeBias


class Stack(nn.Module):
    """Run rows through blocks; `bias` is worked out once for all of them."""

    def __init__(
        self, blocks: Sequence[nn.Module], norm: nn.Module | None = None, bias: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.bias = bias
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Cache | None = None,
        moment: Moment | None = None,
    ) -> Tensor:
        """Rows in, rows out; with a cache, new rows in, and those out that scores are wanted for."""
        if cache is not None and moment is not None:
            return self._extend(x, cache, moment)
        bias = None if self.bias is None else self.bias(x.shape[-2], x.shape[-2], x)
        for block in self.blocks:
            x = block(x, mask, bias, memory, memory_mask)
        return x if self.norm is None else self.norm(x)

    def _extend(self, x: Tensor, cache: Cache, moment: Moment) -> Tensor:
        bias = None
        if isinstance(self.bias, AlibiBias | RelativeBias):
            apart = moment.distances
            bias = self.bias(x.shape[-2], moment.read, x) if apart is None else self.bias.at(apart, x)
        far = cache.cross or [None] * len(self.blocks)
        for block, own, there in zip(self.blocks, cache.own, far, strict=True):
            x = block(x, None, bias, None, cache.source_mask, (own, there), moment)
        if not cache.every and x.shape[-2] > 1:
            x = cut_rows(x, x.shape[-2] - 1, x.shape[-2])
        return x if self.norm is None else self.norm(x)

    def cache(self, batch: int, slots: int, like: Tensor, padding: Tensor | None = None, room: int = 1) -> Cache:
        """Empty slots for sequences of up to so many tokens, in the type and on the device of another tensor.

        Where every block looks through a window there are only as many as it needs, and `room` more, so that
        many tokens can come at once or be taken back.
        """
        attentions = [block.attention for block in self.blocks if isinstance(block, Block)]
        reaches = [attention.pattern.reach for attention in attentions]
        reach = None if None in reaches else max((reach for reach in reaches if reach is not None), default=None)
        size = slots if reach is None else min(slots, reach + room)
        own = [
            Slots(*(like.new_zeros(batch, a.shape.groups, size, a.shape.width) for _ in range(2))) for a in attentions
        ]
        return Cache(own=own, reach=reach, padding=padding)

    def remember(self, memory: Tensor) -> list[Slots]:
        """What every block's cross-attention needs of a memory."""
        return [
            block.cross.remember(memory)
            for block in self.blocks
            if isinstance(block, Block) and block.cross is not None
        ]
