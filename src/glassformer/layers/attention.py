"""Attention with its projections: project, split into heads, attend, merge, project."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.attention import (
    apply_mask,
    attention,
    attention_scores,
    soft_cap,
    weighted_sum,
    window_attention,
)
from glassformer.equations.heads import merge_heads, repeat_kv, split_heads
from glassformer.equations.masks import causal_mask, combine_masks
from glassformer.equations.probability import softmax
from glassformer.equations.regularization import dropout
from glassformer.errors import ConfigError
from glassformer.layers.cache import Moment, Slots
from glassformer.layers.checked import Checked, Size
from glassformer.layers.linear import Linear
from glassformer.layers.patterns import Everything, Window
from glassformer.layers.rotary import Rotary


@dataclass(frozen=True, kw_only=True)
class Heads(Checked):
    """How a width is shared among heads; keys and values may have fewer, and a head any width."""

    dim: Size
    heads: Size
    kv_heads: Size | None = None
    head_dim: Size | None = None
    bias: bool = True
    output_bias: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim is None and self.dim % self.heads:
            raise ConfigError(f"heads is {self.heads}, which does not divide dim {self.dim}; or give head_dim")
        if self.heads % self.groups:
            raise ConfigError(f"kv_heads is {self.groups}, which does not divide heads {self.heads}")

    @property
    def groups(self) -> int:
        """Key-value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def width(self) -> int:
        """Numbers in one head."""
        return self.dim // self.heads if self.head_dim is None else self.head_dim


class Attention(nn.Module):
    """Self-attention, or cross-attention when a memory is given."""

    def __init__(
        self,
        shape: Heads,
        pattern: Everything | None = None,
        rotary: Rotary | None = None,
        norms: tuple[nn.Module, nn.Module] | None = None,
        scale: float | None = None,
        cap: float | None = None,
        rate: float = 0.0,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.pattern = pattern or Everything()
        self.query = Linear(shape.dim, shape.heads * shape.width, shape.bias)
        self.key = Linear(shape.dim, shape.groups * shape.width, shape.bias)
        self.value = Linear(shape.dim, shape.groups * shape.width, shape.bias)
        output_bias = shape.bias if shape.output_bias is None else shape.output_bias
        self.output = Linear(shape.heads * shape.width, shape.dim, output_bias)
        self.query_norm, self.key_norm = norms or (None, None)
        self.rotary = rotary
        self.scale = scale
        self.cap = cap
        self.rate = rate

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        positions: Tensor | None = None,
        slots: Slots | None = None,
        moment: Moment | None = None,
    ) -> Tensor:
        """Rows [batch, seq, dim] look at the memory, or at each other, and come back as rows.

        With slots they look at what these hold: at a memory, or with a moment at earlier rows and themselves.
        """
        if slots is not None:
            return self._recall(x, slots, mask) if moment is None else self._extend(x, slots, moment, bias)
        source = x if memory is None else memory
        query, key, value = self._project(x, source)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.rotary is not None:
            places = torch.arange(x.shape[-2], device=x.device) if positions is None else positions
            query, key = self.rotary(query, places), self.rotary(key, places)
        thins = self.training and self.rate > 0
        if isinstance(self.pattern, Window) and mask is None and bias is None and not thins:
            mixed = window_attention(query, key, value, self.pattern.window, self.scale, self.cap)
            return self.output(merge_heads(mixed))
        pattern = self.pattern.mask(x.shape[-2], source.shape[-2], x)
        if pattern is not None:
            mask = pattern if mask is None else combine_masks(pattern, mask)
        if thins:
            mixed = self._thinned(query, key, value, mask, bias)
        else:
            mixed = attention(query, key, value, mask, bias, self.pattern.causal, self.scale, self.cap)
        return self.output(merge_heads(mixed))

    def _project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the rows, keys and values of their source, by head."""
        query = split_heads(self.query(x), self.shape.heads)
        key = split_heads(self.key(source), self.shape.groups)
        return query, key, split_heads(self.value(source), self.shape.groups)

    def _thinned(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """Attention whose weights are thinned out while training, part by part: fused kernels draw other lots."""
        if self.shape.groups != self.shape.heads:
            key, value = repeat_kv(key, self.shape.heads), repeat_kv(value, self.shape.heads)
        scores = attention_scores(query, key, self.scale)
        if self.cap is not None:
            scores = soft_cap(scores, self.cap)
        if bias is not None:
            scores = add(scores, bias)
        if self.pattern.causal:
            past = causal_mask(query.shape[-2], key.shape[-2], dtype=scores.dtype, device=scores.device)
            scores = apply_mask(scores, past)
        if mask is not None:
            scores = apply_mask(scores, mask)
        return weighted_sum(dropout(softmax(scores), self.rate), value)

    def remember(self, memory: Tensor) -> Slots:
        """Keys and values of a memory, worked out once for all steps that look at it."""
        key = split_heads(self.key(memory), self.shape.groups)
        value = split_heads(self.value(memory), self.shape.groups)
        return Slots(key if self.key_norm is None else self.key_norm(key), value)

    def _extend(self, x: Tensor, slots: Slots, moment: Moment, bias: Tensor | None) -> Tensor:
        """Keep the keys and values of new rows, and look at all that is kept."""
        query, key, value = self._project(x, x)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.rotary is not None:
            query, key = self.rotary(query, moment.places), self.rotary(key, moment.places)
        slots.write(key, value, moment.at)
        key, value = slots.read(moment.read)
        if moment.keys is None and isinstance(self.pattern, Window) and bias is None:
            mixed = window_attention(query, key, value, self.pattern.window, self.scale, self.cap)
            return self.output(merge_heads(mixed))
        if moment.keys is None:
            mask, causal = self.pattern.mask(x.shape[-2], moment.read, x), self.pattern.causal
        else:
            mask, causal = moment.mask(self.pattern), False
        mixed = attention(query, key, value, mask, bias, causal, self.scale, self.cap)
        return self.output(merge_heads(mixed))

    def _recall(self, x: Tensor, slots: Slots, mask: Tensor | None) -> Tensor:
        """Look at a remembered memory."""
        query = split_heads(self.query(x), self.shape.heads)
        if self.query_norm is not None:
            query = self.query_norm(query)
        mixed = attention(query, slots.keys, slots.values, mask, None, False, self.scale, self.cap)
        return self.output(merge_heads(mixed))
