"""The Transformer block, attention and feed-forward each added to the residual stream; and a stack of blocks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import residual
from glassformer.equations.heads import slice_axis
from glassformer.equations.masks import relative_positions
from glassformer.equations.regularization import dropout
from glassformer.errors import ModelError
from glassformer.layers.attention import Attention
from glassformer.layers.cache import AttentionContext, KVCache, LayerKV


class Residual(nn.Module):
    """The residual connection `x + scale * dropout(change)`."""

    def __init__(self, dropout: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.scale = scale

    def forward(self, x: Tensor, change: Tensor) -> Tensor:
        """Add what a sublayer computed to its input."""
        if self.training and self.dropout > 0:
            change = dropout(change, self.dropout)
        return residual(x, change, self.scale)


class Block(nn.Module):
    """Self-attention, cross-attention if there is an encoder, and feed-forward, with pre-norm or post-norm."""

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module,
        norm: Callable[[], nn.Module],
        cross_attention: Attention | None = None,
        norm_first: bool = True,
        dropout: float = 0.0,
        residual_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention, self.attention_norm = attention, norm()
        self.attention_residual = Residual(dropout, residual_scale)
        self.cross_attention = cross_attention
        if cross_attention is not None:
            self.cross_norm = norm()
            self.cross_residual = Residual(dropout, residual_scale)
        self.feed_forward, self.feed_forward_norm = feed_forward, norm()
        self.feed_forward_residual = Residual(dropout, residual_scale)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        encoder_output: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        self_kv: LayerKV | None = None,
        cross_kv: LayerKV | None = None,
        context: AttentionContext | None = None,
    ) -> Tensor:
        """Update hidden states [batch, seq, dim]; with a cache, `context` says where the new tokens stand."""
        cross = self.cross_attention
        if cross is not None and encoder_output is None and cross_kv is None:
            raise ModelError("Block: encoder_output is missing, wanted the encoder's output for the cross-attention")
        if self.norm_first:
            h = self.attention(self.attention_norm(x), mask=mask, bias=bias, kv=self_kv, context=context)
            x = self.attention_residual(x, h)
            if cross is not None:
                x = self.cross_residual(x, cross(self.cross_norm(x), encoder_output, encoder_mask, kv=cross_kv))
            return self.feed_forward_residual(x, self.feed_forward(self.feed_forward_norm(x)))
        h = self.attention(x, mask=mask, bias=bias, kv=self_kv, context=context)
        x = self.attention_norm(self.attention_residual(x, h))
        if cross is not None:
            x = self.cross_norm(self.cross_residual(x, cross(x, encoder_output, encoder_mask, kv=cross_kv)))
        return self.feed_forward_norm(self.feed_forward_residual(x, self.feed_forward(x)))


class Stack(nn.Module):
    """Blocks in sequence, with a final norm; a position bias is computed once for all of them."""

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
        """Hidden states [batch, seq, dim] in and out; with a cache, those of new tokens, of which logits are wanted."""
        if cache is not None and context is not None:
            return self._forward_cached(x, cache, context)
        bias = None if self.bias is None else self.bias(_distances(x, None), x)
        for block in self.blocks:
            x = block(x, mask=mask, bias=bias, encoder_output=encoder_output, encoder_mask=encoder_mask)
        return x if self.norm is None else self.norm(x)

    def _forward_cached(self, x: Tensor, cache: KVCache, context: AttentionContext) -> Tensor:
        bias = None if self.bias is None else self.bias(_distances(x, context), x)
        cross_kv = cache.cross_kv or [None] * len(self.blocks)
        for block, own, cross in zip(self.blocks, cache.self_kv, cross_kv, strict=True):
            x = block(x, bias=bias, encoder_mask=cache.source_mask, self_kv=own, cross_kv=cross, context=context)
        if not cache.all_logits and x.shape[-2] > 1:
            x = slice_axis(x, -2, x.shape[-2] - 1, x.shape[-2])
        return x if self.norm is None else self.norm(x)

    def cache(self, batch: int, slots: int, like: Tensor, padding: Tensor | None = None, headroom: int = 1) -> KVCache:
        """An empty KV cache for sequences of up to `slots` tokens, with the dtype and device of another tensor.

        If every block has a sliding window, the cache is a ring buffer of that size plus `headroom`, so that many
        tokens can be added at once or taken back.
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
        """Keys and values of the encoder output for the cross-attention of every block."""
        return [
            block.cross_attention.project_memory(encoder_output)
            for block in self.blocks
            if isinstance(block, Block) and block.cross_attention is not None
        ]


def _distances(x: Tensor, context: AttentionContext | None) -> Tensor:
    """Key position minus query position, for every pair."""
    if context is None:
        positions = torch.arange(x.shape[-2], device=x.device)
        return relative_positions(positions, positions)
    if context.relative_positions is not None:
        return context.relative_positions
    return relative_positions(context.positions, torch.arange(context.kv_length, device=x.device))
