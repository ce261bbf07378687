"""Inference-only blocks: one QKV projection and a direct SDPA call that bypasses per-equation dispatch.

With one token per step, Python calls cost more than the arithmetic. A source, a prompt or a step therefore calls the
same kernels directly. Under a tape, while training, or with anything beyond that, the plain block runs.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.equation import MODE
from glassformer.equations.algebra import residual
from glassformer.layers.attention import Attention
from glassformer.layers.block import Block
from glassformer.layers.cache import AttentionContext, LayerKV
from glassformer.layers.patterns import Bidirectional, Causal


class FusedBlock(Block):
    """A block that calls its kernels directly, equal to the block it was made from."""

    def __init__(self, block: Block) -> None:
        nn.Module.__init__(self)
        for name, child in block.named_children():
            setattr(self, name, child)
        self.norm_first, self.cross_attention = block.norm_first, block.cross_attention

    @staticmethod
    def fits(block: nn.Module) -> bool:
        """Whether attention is over all tokens or all past tokens, from one QKV projection, without a soft cap."""
        if type(block) is not Block or block.attention.qkv is None:
            return False
        cross = block.cross_attention
        plain = cross is None or (cross.logit_softcap is None and cross.query_norm is None)
        attention = block.attention
        return plain and type(attention.pattern) in (Bidirectional, Causal) and attention.logit_softcap is None

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
        """Update hidden states [batch, seq, dim]."""
        special = bias is not None or encoder_output is not None or self.training
        if special or MODE.dispatcher is not None or not self._direct(x, mask, context):
            return super().forward(x, mask, bias, encoder_output, encoder_mask, self_kv, cross_kv, context)
        h = self.attention_norm.forward(x) if self.norm_first else x
        h = _self_attention(self.attention, h, self_kv, context, mask)
        x = residual.kernel(x, h, self.attention_residual.scale)
        x = x if self.norm_first else self.attention_norm.forward(x)
        if self.cross_attention is not None and cross_kv is not None:
            h = self.cross_norm.forward(x) if self.norm_first else x
            h = _cross_attention(self.cross_attention, h, cross_kv, encoder_mask)
            x = residual.kernel(x, h, self.cross_residual.scale)
            x = x if self.norm_first else self.cross_norm.forward(x)
        h = self.feed_forward_norm.forward(x) if self.norm_first else x
        x = residual.kernel(x, self.feed_forward.forward(h), self.feed_forward_residual.scale)
        return x if self.norm_first else self.feed_forward_norm.forward(x)

    def _direct(self, x: Tensor, mask: Tensor | None, context: AttentionContext | None) -> bool:
        """Whether this is a source, or texts that all stand at the same position, perhaps with several beams each."""
        if torch.compiler.is_compiling():
            return False
        if context is None:
            return self.cross_attention is None and (mask is None or not self.attention.pattern.causal)
        if context.key_positions is None:
            return x.shape[1] in (1, context.kv_length)
        return context.start is not None and context.ancestors is not None


def _self_attention(
    attention: Attention, x: Tensor, kv: LayerKV | None, context: AttentionContext | None, mask: Tensor | None
) -> Tensor:
    """Attention of tokens [texts, new, dim] to each other, or to what the cache holds and themselves."""
    heads, kv_heads, (texts, new) = attention.shape.heads, attention.shape.kv_heads, x.shape[:2]
    assert attention.qkv is not None
    every = attention.qkv.forward(x).view(texts, new, heads + 2 * kv_heads, attention.shape.head_dim).transpose(1, 2)
    both, value = every[:, : heads + kv_heads], every[:, heads + kv_heads :]
    if attention.query_norm is not None and attention.key_norm is not None:
        both = torch.cat([attention.query_norm(both[:, :heads]), attention.key_norm(both[:, heads:])], 1)
    if attention.rotary is not None:
        both = attention.rotary(both, torch.arange(new, device=x.device) if context is None else context.positions)
    query, key = both[:, :heads], both[:, heads:]
    if kv is not None and context is not None:
        assert context.start is not None
        stop = context.start + new
        kv.keys[:, :, context.start : stop].copy_(key)
        kv.values[:, :, context.start : stop].copy_(value)
        key, value = kv.keys[:, :, : context.kv_length], kv.values[:, :, : context.kv_length]
        mask = mask if context.key_positions is None else context.mask(attention.pattern)
    causal = mask is None and attention.pattern.causal and new > 1
    mixed = functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=causal, scale=attention.scale, enable_gqa=heads != kv_heads
    )
    return attention.output.forward(mixed.transpose(1, 2).reshape(texts, new, -1))


def _cross_attention(attention: Attention, x: Tensor, kv: LayerKV, mask: Tensor | None) -> Tensor:
    """Attention to the cached keys and values of the encoder output."""
    (texts, new), heads = x.shape[:2], attention.shape.heads
    query = attention.query.forward(x).view(texts, new, heads, -1).transpose(1, 2)
    mixed = functional.scaled_dot_product_attention(
        query, kv.keys, kv.values, mask, scale=attention.scale, enable_gqa=heads != attention.shape.kv_heads
    )
    return attention.output.forward(mixed.transpose(1, 2).reshape(texts, new, -1))
