"""Inference-only attention: one QKV projection and a direct SDPA call that bypasses per-equation dispatch.

With one token per step, Python calls cost more than the arithmetic. Under a tape, while training or compiling, and
for masks and biases that SDPA does not take as they are, the plain attention runs.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.equation import MODE
from glassformer.layers.block import Attention, Bidirectional, Causal, Separated
from glassformer.layers.cache import AttentionContext, LayerKV


class FusedAttention(Attention):
    """Attention that calls its kernels directly, equal to the one it takes its parts from."""

    def __init__(self, attention: Attention) -> None:
        nn.Module.__init__(self)
        vars(self).update(vars(attention))

    @staticmethod
    def fits(attention: Attention) -> bool:
        """Whether attention is over all tokens or all past tokens, without a soft cap."""
        plain = attention.logit_softcap is None and (attention.qkv is not None or attention.query_norm is None)
        return plain and type(attention) is Attention and type(attention.pattern) in (Bidirectional, Causal)

    def forward(
        self,
        x: Tensor,
        encoder_output: Tensor | None = None,
        mask: Tensor | Separated | None = None,
        bias: Tensor | None = None,
        kv: LayerKV | None = None,
        context: AttentionContext | None = None,
    ) -> Tensor:
        """Hidden states [batch, seq, dim] attend to each other, to cached tokens, or to the cached encoder output."""
        direct = MODE.dispatcher is None and bias is None and not self.training and not torch.compiler.is_compiling()
        if direct and (mask is None or isinstance(mask, Tensor)):
            if self.qkv is None:
                if kv is not None and context is None:
                    query = self.query.forward(x).view(*x.shape[:2], self.shape.heads, -1).transpose(1, 2)
                    return self._attend_directly(query, kv.keys, kv.values, mask, False)
            elif self._takes(x, mask, context):
                return self._self_attention(x, mask, kv, context)
        return super().forward(x, encoder_output, mask, bias, kv, context)

    def _takes(self, x: Tensor, mask: Tensor | None, context: AttentionContext | None) -> bool:
        """Whether this is a source, or sequences that are all at the same position, perhaps with several beams each."""
        if context is None:
            return mask is None or not self.pattern.causal
        if context.key_positions is None:
            return x.shape[1] in (1, context.kv_length)
        return context.start is not None and context.ancestors is not None

    def _self_attention(
        self, x: Tensor, mask: Tensor | None, kv: LayerKV | None, context: AttentionContext | None
    ) -> Tensor:
        """Attention of tokens [batch, new, dim] to each other, or to the cached tokens and themselves."""
        heads, kv_heads, (batch, new) = self.shape.heads, self.shape.kv_heads, x.shape[:2]
        assert self.qkv is not None
        qkv = self.qkv.forward(x).view(batch, new, heads + 2 * kv_heads, self.shape.head_dim).transpose(1, 2)
        query_key, value = qkv[:, : heads + kv_heads], qkv[:, heads + kv_heads :]
        if self.query_norm is not None and self.key_norm is not None:
            query_key = torch.cat([self.query_norm(query_key[:, :heads]), self.key_norm(query_key[:, heads:])], 1)
        if self.rotary is not None:
            positions = torch.arange(new, device=x.device) if context is None else context.positions
            query_key = self.rotary(query_key, positions)
        query, key = query_key[:, :heads], query_key[:, heads:]
        if kv is not None and context is not None:
            assert context.start is not None
            stop = context.start + new
            kv.keys[:, :, context.start : stop].copy_(key)
            kv.values[:, :, context.start : stop].copy_(value)
            key, value = kv.keys[:, :, : context.kv_length], kv.values[:, :, : context.kv_length]
            mask = mask if context.key_positions is None else context.mask(self.pattern)
        causal = mask is None and self.pattern.causal and new > 1
        return self._attend_directly(query, key, value, mask, causal)

    def _attend_directly(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        grouped = self.shape.heads != self.shape.kv_heads
        mixed = functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=causal, scale=self.scale, enable_gqa=grouped
        )
        return self.output.forward(mixed.transpose(1, 2).flatten(2))
