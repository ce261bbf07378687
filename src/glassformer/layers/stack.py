"""Blocks in a row, with what they share: a bias by distance at the start, a norm at the end."""

from collections.abc import Sequence

from torch import Tensor, nn

from glassformer.equations.heads import slice_axis
from glassformer.layers.block import Block
from glassformer.layers.cache import AttentionContext, KVCache, LayerKV
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
        encoder_output: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        cache: KVCache | None = None,
        context: AttentionContext | None = None,
    ) -> Tensor:
        """Rows in, rows out; with a cache, new rows in, and those out that scores are wanted for."""
        if cache is not None and context is not None:
            return self._forward_cached(x, cache, context)
        bias = None if self.bias is None else self.bias(x.shape[-2], x.shape[-2], x)
        for block in self.blocks:
            x = block(x, mask=mask, bias=bias, encoder_output=encoder_output, encoder_mask=encoder_mask)
        return x if self.norm is None else self.norm(x)

    def _forward_cached(self, x: Tensor, cache: KVCache, context: AttentionContext) -> Tensor:
        bias = None
        if isinstance(self.bias, AlibiBias | RelativeBias):
            apart = context.relative_positions
            bias = self.bias(x.shape[-2], context.kv_length, x) if apart is None else self.bias.at(apart, x)
        cross_kv = cache.cross_kv or [None] * len(self.blocks)
        for block, own, cross in zip(self.blocks, cache.self_kv, cross_kv, strict=True):
            x = block(x, bias=bias, encoder_mask=cache.source_mask, self_kv=own, cross_kv=cross, context=context)
        if not cache.all_logits and x.shape[-2] > 1:
            x = slice_axis(x, -2, x.shape[-2] - 1, x.shape[-2])
        return x if self.norm is None else self.norm(x)

    def cache(self, batch: int, slots: int, like: Tensor, padding: Tensor | None = None, headroom: int = 1) -> KVCache:
        """Empty slots for sequences of up to so many tokens, in the type and on the device of another tensor.

        Where every block looks through a window there are only as many as it needs, and `room` more, so that
        many tokens can come at once or be taken back.
        """
        attentions = [block.attention for block in self.blocks if isinstance(block, Block)]
        reaches = [attention.pattern.window_size for attention in attentions]
        reach = None if None in reaches else max((reach for reach in reaches if reach is not None), default=None)
        size = slots if reach is None else min(slots, reach + headroom)
        own = [
            LayerKV(*(like.new_zeros(batch, a.shape.kv_heads, size, a.shape.head_dim) for _ in range(2)))
            for a in attentions
        ]
        return KVCache(self_kv=own, window=reach, padding=padding)

    def project_memory(self, encoder_output: Tensor) -> list[LayerKV]:
        """What every block's cross-attention needs of a memory."""
        return [
            block.cross_attention.project_memory(encoder_output)
            for block in self.blocks
            if isinstance(block, Block) and block.cross_attention is not None
        ]
