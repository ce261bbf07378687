"""T5: text to text, with distances counted in the scores and no other positions (Raffel et al., 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.equations.activations import geglu, relu
from glassformer.equations.algebra import scale
from glassformer.equations.embedding import unembed
from glassformer.equations.initialization import normal
from glassformer.equations.masks import padding_mask
from glassformer.equations.regularization import dropout
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.cache import Cache
from glassformer.layers.checked import Checked, Layers, NotNegative, Probability, Size
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import FeedForward, GatedFeedForward
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model, checked_at_the_boundary
from glassformer.layers.normalization import RMSNorm
from glassformer.layers.patterns import Past
from glassformer.layers.positions import RelativeBias
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class T5Config(Checked):
    """Sizes of a T5; `gated` and not `tied` make it version 1.1."""

    vocab: Size = 32128
    context: Size | None = None
    dim: Size = 512
    layers: Layers = 6
    decoder_layers: Layers | None = None
    heads: Size = 8
    head_dim: Size = 64
    hidden: Size = 2048
    gated: bool = False
    tied: bool = True
    buckets: Size = 32
    max_distance: Size = 128
    dropout: Probability = 0.0
    eps: NotNegative = 1e-6


class T5(Model):
    """A source and a target so far in, scores for each next target token out."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocab, config.dim)
        self.encoder = self._stack(config.layers, decoder=False)
        writers = config.layers if config.decoder_layers is None else config.decoder_layers
        self.decoder = self._stack(writers, decoder=True)
        self.output: nn.Module | None = None if config.tied else Linear(config.dim, config.vocab, bias=False)

    def _norm(self) -> RMSNorm:
        return RMSNorm(self.config.dim, self.config.eps)

    def _stack(self, layers: int, decoder: bool) -> Stack:
        config = self.config
        bias = RelativeBias(config.heads, config.buckets, config.max_distance, bidirectional=not decoder)
        return Stack([self._block(decoder) for _ in range(layers)], norm=self._norm(), bias=bias)

    def _block(self, decoder: bool) -> Block:
        config = self.config
        shape = Heads(dim=config.dim, heads=config.heads, head_dim=config.head_dim, bias=False)
        return Block(
            Attention(shape, Past() if decoder else None, scale=1.0),
            self._feed_forward(),
            around=lambda: Around(self._norm(), "pre", config.dropout),
            cross=Attention(shape, scale=1.0) if decoder else None,
        )

    def _feed_forward(self) -> nn.Module:
        dim, hidden = self.config.dim, self.config.hidden
        return GatedFeedForward(dim, hidden, geglu) if self.config.gated else FeedForward(dim, hidden, relu, bias=False)

    def _embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    def encode(self, source: Tensor, keep: Tensor | None = None) -> Tensor:
        """Read the source [batch, seq] into rows [batch, seq, dim]; `keep` is false for padding."""
        x = self._embed(source)
        return self.encoder(x, None if keep is None else padding_mask(keep, dtype=x.dtype))

    def decode(
        self, target: Tensor, memory: Tensor | None, keep: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Scores [batch, seq, vocab] for the token after each target token; `keep` is of the source.

        With a cache the tokens go on from those it has seen, and are added to it; it holds the source too.
        """
        moment = None if cache is None else cache.moment(target.shape[1])
        y = self._embed(target)
        memory_mask = None if keep is None else padding_mask(keep, dtype=y.dtype)
        y = self.decoder(y, None, memory, memory_mask, cache, moment)
        if cache is not None:
            cache.advance(target.shape[1])
        if self.output is not None:
            return self.output(y)
        return unembed(scale(y, self.config.dim**-0.5), self.embedding.weight)

    def cache(self, source: Tensor, slots: int, keep: Tensor | None = None, room: int = 1) -> Cache:
        """Read the source once, and open an empty cache for targets of up to so many tokens."""
        memory = self.encode(source, keep)
        cache = self.decoder.cache(len(source), slots, memory, room=room)
        cache.cross = self.decoder.remember(memory)
        cache.source_mask = None if keep is None else padding_mask(keep, dtype=memory.dtype)
        return cache

    def check(self, source: Tensor, target: Tensor, keep: Tensor | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.check_tokens("source", source, self.config.vocab, self.config.context)
        self.check_tokens("target", target, self.config.vocab, self.config.context)
        self.check_keep("keep", keep, source)
        self.check_batch("target", target, source)

    @checked_at_the_boundary(check)
    def forward(self, source: Tensor, target: Tensor, keep: Tensor | None = None) -> Tensor:
        """Scores [batch, seq, vocab] for every next target token, given the right ones before it."""
        return self.decode(target, self.encode(source, keep), keep)

    @torch.no_grad()
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Start afresh: each matrix scaled to its inputs; queries smaller, for scores are not divided by the root."""
        for name, weight in self.named_parameters():
            if name == "embedding.weight":
                weight.copy_(normal(tuple(weight.shape), 1.0, generator))
            elif weight.dim() > 1:
                shrink = self.config.head_dim**-0.5 if name.endswith("query.weight") else 1.0
                weight.copy_(normal(tuple(weight.shape), shrink * weight.shape[0] ** -0.5, generator))
