"""The Transformer block: attention and feed-forward, each added to the residual stream."""

from collections.abc import Callable

from torch import Tensor, nn

from glassformer.equations.algebra import residual
from glassformer.equations.regularization import dropout
from glassformer.errors import ModelError
from glassformer.layers.attention import Attention
from glassformer.layers.cache import AttentionContext, LayerKV


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
