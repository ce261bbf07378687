"""Llama, Mistral, Qwen2: rotary positions, RMS norms, gated feed-forward, grouped queries (Touvron et al., 2023)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.equations.activations import swiglu
from glassformer.equations.embedding import unembed
from glassformer.equations.initialization import normal
from glassformer.equations.masks import padding_mask
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.cache import Cache
from glassformer.layers.checked import Checked, Layers, NotNegative, Positive, Size
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import GatedFeedForward
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model, checked_at_the_boundary
from glassformer.layers.normalization import RMSNorm
from glassformer.layers.patterns import Past, Window
from glassformer.layers.rotary import Rotary, Scaling
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Checked):
    """Sizes of a Llama; a `window` makes it a Mistral, `qkv_bias` a Qwen2."""

    vocab: Size = 32000
    context: Size = 2048
    dim: Size = 4096
    layers: Layers = 32
    heads: Size = 32
    kv_heads: Size | None = None
    head_dim: Size | None = None
    hidden: Size = 11008
    base: Positive = 10000.0
    scaling: Scaling | None = None
    window: Size | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    tied: bool = False
    eps: NotNegative = 1e-5


class Llama(Model):
    """Tokens in, scores for the next token out."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocab, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=self._norm())
        self.output: nn.Module | None = None if config.tied else Linear(config.dim, config.vocab, bias=False)

    def _norm(self) -> RMSNorm:
        return RMSNorm(self.config.dim, self.config.eps)

    def _block(self) -> Block:
        config = self.config
        shape = Heads(
            dim=config.dim,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            bias=config.qkv_bias,
            output_bias=config.output_bias,
        )
        pattern = Past() if config.window is None else Window(window=config.window)
        return Block(
            Attention(shape, pattern, Rotary(shape.width, config.base, config.scaling)),
            GatedFeedForward(config.dim, config.hidden, swiglu, config.feed_forward_bias),
            around=lambda: Around(self._norm()),
        )

    def check(self, ids: Tensor, keep: Tensor | None = None, cache: Cache | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab, self.config.context)
        self.check_keep("keep", keep, ids)
        self.check_cache(ids, keep, cache, self.config.context)

    @checked_at_the_boundary(check)
    def forward(self, ids: Tensor, keep: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Scores [batch, seq, vocab] from tokens [batch, seq]; `keep` is false for padding.

        With a cache the tokens go on from those it has seen, and are added to it.
        """
        moment = None if cache is None else cache.moment(ids.shape[1])
        x = self.embedding(ids)
        mask = None if keep is None else padding_mask(keep, dtype=x.dtype)
        x = self.stack(x, mask, cache=cache, moment=moment)
        if cache is not None:
            cache.advance(ids.shape[1])
        return unembed(x, self.embedding.weight) if self.output is None else self.output(x)

    def cache(self, batch: int, slots: int, padding: Tensor | None = None, room: int = 1) -> Cache:
        """An empty cache for sequences of up to so many tokens, the first `padding` columns of each empty."""
        return self.stack.cache(batch, slots, self.embedding.weight, padding, room)

    @torch.no_grad()
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Start afresh: small normal weights."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(normal(tuple(weight.shape), 0.02, generator))
