"""Attention, the Transformer block and a stack of blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import product_dtype, residual
from glassformer.equations.attention import (
    attention,
    attention_scores,
    dropout_attention,
    masked_scores,
    weighted_sum,
)
from glassformer.equations.heads import merge_heads, repeat_kv, slice_axis, split_heads
from glassformer.equations.masks import combine_masks, position_mask, relative_positions
from glassformer.equations.regularization import dropout
from glassformer.equations.softmax import softmax
from glassformer.errors import ConfigError, ModelError
from glassformer.layers.basic import Linear
from glassformer.layers.cache import AttentionContext, KVCache, LayerKV
from glassformer.layers.config import Config, Size


@dataclass(frozen=True, kw_only=True)
class Bidirectional(Config):
    """Every query may attend to every key."""

    causal: bool = False

    def mask(self, queries: int, keys: int, like: Tensor) -> Tensor | None:
        """Additive mask beyond causality, or None."""
        return None

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, cap: float | None
    ) -> Tensor | None:
        """Attention by an equation of the pattern's own, where that is faster than a mask, or None."""
        return None

    @property
    def window_size(self) -> int | None:
        """How many positions back a query attends, its own included; None for all of them."""
        return None

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True where a query may attend, from distances and key positions; only a causal pattern can be cached."""
        if not self.causal:
            raise ModelError(f"{type(self).__name__}: attends to later tokens, so it cannot decode from a cache")
        return position_mask(distances, keys)


@dataclass(frozen=True, kw_only=True)
class Causal(Bidirectional):
    """A query may attend to its own position and those before it."""

    causal: bool = True


@runtime_checkable
class Separated(Protocol):
    """In place of a mask: which tokens of a row belong together, where several sequences share one (`packing`)."""

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None, dropout: float
    ) -> Tensor | None:
        """Attention within each sequence, with dropout of its weights; None if that goes step by step."""
        ...

    def mask(self, query: Tensor, key: Tensor, causal: bool) -> Tensor:
        """The mask that has the same effect."""
        ...


@dataclass(frozen=True, kw_only=True)
class AttentionShape(Config):
    """Dimensions of multi-head attention; with fewer `kv_heads`, groups of query heads share keys and values."""

    dim: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    bias: bool
    output_bias: bool

    @classmethod
    def of(
        cls,
        dim: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> "AttentionShape":
        """The shape with defaults filled in: as many key-value heads as heads, heads that divide `dim`."""
        if head_dim is None and heads > 0 and dim % heads:
            raise ConfigError(f"heads is {heads}, which does not divide dim {dim}; or give head_dim")
        return cls(
            dim=dim,
            heads=heads,
            kv_heads=heads if kv_heads is None else kv_heads,
            head_dim=dim // max(heads, 1) if head_dim is None else head_dim,
            bias=bias,
            output_bias=bias if output_bias is None else output_bias,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads % self.kv_heads:
            raise ConfigError(f"kv_heads is {self.kv_heads}, which does not divide heads {self.heads}")


class Attention(nn.Module):
    """Multi-head attention: self-attention, or cross-attention when an encoder output is given.

    With `fused_qkv`, as in GPT-2, one linear layer makes queries, keys and values.
    """

    def __init__(
        self,
        shape: AttentionShape,
        pattern: Bidirectional | None = None,
        rotary: nn.Module | None = None,
        norms: tuple[nn.Module, nn.Module] | None = None,
        scale: float | None = None,
        logit_softcap: float | None = None,
        dropout: float = 0.0,
        fused_qkv: bool = False,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.pattern = pattern or Bidirectional()
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.qkv: nn.Module | None = None
        if fused_qkv:
            self.qkv = Linear(shape.dim, queries + 2 * keys, shape.bias)
            self.qkv.parts = (queries, keys, keys)
        else:
            self.query = Linear(shape.dim, queries, shape.bias)
            self.key = Linear(shape.dim, keys, shape.bias)
            self.value = Linear(shape.dim, keys, shape.bias)
        self.output = Linear(queries, shape.dim, shape.output_bias)
        self.query_norm, self.key_norm = norms or (None, None)
        self.rotary = rotary
        self.scale = scale
        self.logit_softcap = logit_softcap
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        encoder_output: Tensor | None = None,
        mask: Tensor | Separated | None = None,
        bias: Tensor | None = None,
        kv: LayerKV | None = None,
        context: AttentionContext | None = None,
    ) -> Tensor:
        """Hidden states [batch, seq, dim] attend to the encoder output, or to each other.

        With `kv` and a `context`, keys and values are appended to the cache, and all cached ones are attended to;
        `kv` alone holds the keys and values of the encoder output.
        """
        if kv is not None and context is None:
            query, key, value = self._query(x), kv.keys, kv.values
        else:
            query, key, value = self._project(x, x if encoder_output is None else encoder_output)
            if self.rotary is not None:
                positions = torch.arange(x.shape[-2], device=x.device) if context is None else context.positions
                query, key = self.rotary(query, positions), self.rotary(key, positions)
        if kv is not None and context is not None:
            kv.write(key, value, context.slots)
            key, value = kv.read(context.kv_length)
        if context is not None and context.key_positions is not None:
            return self._attend(query, key, value, context.mask(self.pattern), bias, causal=False)
        if mask is not None and not isinstance(mask, Tensor):
            return self._attend_packed(query, key, value, mask, bias)
        if bias is None and not self._drops:
            mixed = self.pattern.attend(query, key, value, mask, self.scale, self.logit_softcap)
            if mixed is not None:
                return self.output(merge_heads(mixed))
        allowed = self.pattern.mask(query.shape[-2], key.shape[-2], x)
        if allowed is not None:
            mask = allowed if mask is None else combine_masks(allowed, mask)
        return self._attend(query, key, value, mask, bias, self.pattern.causal)

    def project_memory(self, encoder_output: Tensor) -> LayerKV:
        """Keys and values of the encoder output, computed once for all decoding steps."""
        key = split_heads(self.key(encoder_output), self.shape.kv_heads)
        value = split_heads(self.value(encoder_output), self.shape.kv_heads)
        return LayerKV(key if self.key_norm is None else self.key_norm(key), value)

    def _query(self, x: Tensor) -> Tensor:
        query = split_heads(self.query(x), self.shape.heads)
        return query if self.query_norm is None else self.query_norm(query)

    def _project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of x, keys and values of the source, by head."""
        if self.qkv is None:
            query, kv = self._query(x), self.project_memory(source)
            return query, kv.keys, kv.values
        heads, kv_heads, head_dim = self.shape.heads, self.shape.kv_heads, self.shape.head_dim
        qkv, queries, keys = self.qkv(x), heads * head_dim, kv_heads * head_dim
        query = split_heads(slice_axis(qkv, -1, 0, queries), heads)
        key = split_heads(slice_axis(qkv, -1, queries, queries + keys), kv_heads)
        value = split_heads(slice_axis(qkv, -1, queries + keys, queries + 2 * keys), kv_heads)
        if self.query_norm is None or self.key_norm is None:
            return query, key, value
        return self.query_norm(query), self.key_norm(key), value

    @property
    def _drops(self) -> bool:
        return self.training and self.dropout > 0

    def _attend_packed(self, query: Tensor, key: Tensor, value: Tensor, rows: Separated, bias: Tensor | None) -> Tensor:
        """Attention within each of the sequences that share a row, and its output projection."""
        if bias is not None or self.rotary is not None or self.logit_softcap is not None:
            raise ModelError("Attention: sequences in one row, wanted one in each where positions enter attention")
        causal = self.pattern.causal
        mixed = rows.attend(query, key, value, causal, self.scale, self.dropout if self._drops else 0.0)
        if mixed is not None:
            return self.output(merge_heads(mixed))
        return self._attend(query, key, value, rows.mask(query, key, causal), None, causal=False)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool
    ) -> Tensor:
        """Attention and its output projection; dropout beside a bias or a soft cap goes step by step."""
        if not self._drops:
            mixed = attention(query, key, value, mask, bias, causal, self.scale, self.logit_softcap)
        elif bias is None and self.logit_softcap is None:
            mixed = dropout_attention(query, key, value, mask, causal, self.scale, self.dropout)
        else:
            if self.shape.kv_heads != self.shape.heads:
                key, value = repeat_kv(key, self.shape.heads), repeat_kv(value, self.shape.heads)
            scores = attention_scores(query, key, self.scale)
            scores = masked_scores(scores, mask, bias, causal, self.logit_softcap)
            mixed = weighted_sum(dropout(softmax(scores), self.dropout), value)
        return self.output(merge_heads(mixed))


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
        mask: Tensor | Separated | None = None,
        bias: Tensor | None = None,
        encoder_output: Tensor | None = None,
        encoder_mask: Tensor | Separated | None = None,
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
        mask: Tensor | Separated | None = None,
        encoder_output: Tensor | None = None,
        encoder_mask: Tensor | Separated | None = None,
        cache: KVCache | None = None,
        context: AttentionContext | None = None,
    ) -> Tensor:
        """Hidden states [batch, seq, dim] in and out; with a cache, those of new tokens, whose logits are wanted."""
        x = x.to(product_dtype(x))  # under autocast the residual stream takes half the memory and time
        bias = None if self.bias is None else self.bias(_distances(x, context), x)
        none = [None] * len(self.blocks)
        self_kv, cross_kv = (none, none) if cache is None else (cache.self_kv[: len(none)], cache.cross_kv or none)
        encoder_mask = encoder_mask if cache is None else cache.source_mask
        for block, own, cross in zip(self.blocks, self_kv, cross_kv, strict=True):
            x = block(x, mask, bias, encoder_output, encoder_mask, self_kv=own, cross_kv=cross, context=context)
        if cache is not None and not cache.all_logits and x.shape[-2] > 1:
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
        ] or [LayerKV(*(like.new_zeros(batch, 1, size, 0) for _ in range(2)))]  # without blocks, it counts tokens
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
