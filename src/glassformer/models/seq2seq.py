"""The Transformer of "Attention is all you need" (Vaswani et al., 2017): an encoder reads, a decoder writes."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.embedding import scale_embedding, unembed
from glassformer.equations.initialization import normal, xavier_uniform
from glassformer.equations.masks import padding_mask
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.regularization import dropout
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block, Order
from glassformer.layers.cache import Cache
from glassformer.layers.checked import Checked, Count, Layers, NotNegative, Probability, Size, sizes_allowed
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import ACTIVATIONS, FeedForward
from glassformer.layers.model import Model, checked_at_the_boundary
from glassformer.layers.normalization import LayerNorm
from glassformer.layers.patterns import Past
from glassformer.layers.positions import LearnedPositions, SinusoidalPositions
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Checked):
    """Sizes of a translator; one vocabulary and one embedding serve both languages and the output."""

    vocab: Size = 37000
    context: Size = 512
    dim: Size = 512
    layers: Layers = 6
    decoder_layers: Layers | None = None
    heads: Size = 8
    hidden: Size = 2048
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    order: Order = "post"
    positions: Literal["adjacent", "halves", "learned"] = "adjacent"
    first_place: Count = 0
    scaled: bool = True
    embedding_norm: bool = False
    output_bias: bool = False
    dropout: Probability = 0.0
    attention_dropout: Probability = 0.0
    eps: NotNegative = 1e-5


class Seq2Seq(Model):
    """A source and a target so far in, scores for each next target token out."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocab, config.dim)
        self.source_start, self.target_start = (self._start() for _ in range(2))
        final = self._norm if config.order == "pre" else lambda: None
        self.encoder = Stack([self._block() for _ in range(config.layers)], norm=final())
        writers = config.layers if config.decoder_layers is None else config.decoder_layers
        self.decoder = Stack([self._block(decoder=True) for _ in range(writers)], norm=final())
        self.output: nn.Module | None = None  # the embedding in another form, where decoding wants one
        self.output_bias = nn.Parameter(torch.zeros(config.vocab)) if config.output_bias else None

    def _norm(self) -> LayerNorm:
        return LayerNorm(self.config.dim, self.config.eps)

    def _start(self) -> nn.Sequential:
        """What happens to embeddings before the first block: positions, and in some families a norm."""
        config = self.config
        if config.positions == "learned":
            places = LearnedPositions(config.first_place + config.context, config.dim)
        else:
            with sizes_allowed():
                sinusoidal_positions(0, config.dim, layout=config.positions)
            places = SinusoidalPositions(config.positions)
        return nn.Sequential(places, self._norm()) if config.embedding_norm else nn.Sequential(places)

    def _block(self, decoder: bool = False) -> Block:
        config = self.config
        shape = Heads(dim=config.dim, heads=config.heads)
        return Block(
            Attention(shape, Past() if decoder else None, rate=config.attention_dropout),
            FeedForward(config.dim, config.hidden, ACTIVATIONS[config.activation]),
            around=lambda: Around(self._norm(), config.order, config.dropout),
            cross=Attention(shape, rate=config.attention_dropout) if decoder else None,
        )

    def _embed(self, ids: Tensor, start: nn.Sequential, at: Tensor | None = None) -> Tensor:
        x = self.embedding(ids)
        places, *norm = start
        x = places(scale_embedding(x) if self.config.scaled else x, self.config.first_place, at)
        x = norm[0](x) if norm else x
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    def encode(self, source: Tensor, keep: Tensor | None = None) -> Tensor:
        """Read the source [batch, seq] into rows [batch, seq, dim]; `keep` is false for padding."""
        x = self._embed(source, self.source_start)
        return self.encoder(x, None if keep is None else padding_mask(keep, dtype=x.dtype))

    def decode(
        self, target: Tensor, memory: Tensor | None, keep: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Scores [batch, seq, vocab] for the token after each target token; `keep` is of the source.

        With a cache the tokens go on from those it has seen, and are added to it; it holds the source too.
        """
        moment = None if cache is None else cache.moment(target.shape[1])
        y = self._embed(target, self.target_start, None if moment is None else moment.places)
        memory_mask = None if keep is None else padding_mask(keep, dtype=y.dtype)
        y = self.decoder(y, None, memory, memory_mask, cache, moment)
        if cache is not None:
            cache.advance(target.shape[1])
        scores = unembed(y, self.embedding.weight) if self.output is None else self.output(y)
        return scores if self.output_bias is None else add(scores, self.output_bias)

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
        """Start afresh: Xavier for matrices, normal of one over root width for embeddings."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1 and ("embedding" in name or "_start" in name):
                weight.copy_(normal(tuple(weight.shape), self.config.dim**-0.5, generator))
            elif weight.dim() > 1:
                weight.copy_(xavier_uniform(*weight.shape, generator=generator))
