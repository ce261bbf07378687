"""BERT: an encoder alone, norms after the sublayers (Devlin et al., 2018), with the heads that use it."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.embedding import unembed
from glassformer.equations.initialization import truncated_normal
from glassformer.equations.masks import padding_mask
from glassformer.equations.regularization import dropout
from glassformer.equations.sequences import mean_pool, row_at
from glassformer.equations.similarity import normalize
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.checked import Checked, Count, Layers, NotNegative, Probability, Size
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import ACTIVATIONS, FeedForward
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model, checked_at_the_boundary
from glassformer.layers.normalization import LayerNorm
from glassformer.layers.positions import LearnedPositions
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Checked):
    """Sizes of a BERT; `head` says what comes out.

    One `shared` block run many times and a narrower `embedding_dim` make it an ALBERT, places counted
    from `first_place` a RoBERTa, no segments and a ReLU to `pool` by a DistilBERT.
    """

    vocab: Size = 30522
    context: Size = 512
    dim: Size = 768
    layers: Layers = 12
    heads: Size = 12
    hidden: Size = 3072
    segments: Count = 2
    embedding_dim: Size | None = None
    first_place: Count = 0
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    shared: bool = False
    head: Literal["rows", "first", "sentence", "masked", "classes"] = "rows"
    pool: Literal["tanh", "relu"] = "tanh"
    classes: Size = 2
    dropout: Probability = 0.0
    eps: NotNegative = 1e-12


class MaskedHead(nn.Module):
    """Scores for the token that was masked, by the tied embedding."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_dim or config.dim
        self.transform = Linear(config.dim, width)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = LayerNorm(width, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Scores [batch, seq, vocab]."""
        return add(unembed(self.norm(self.activation(self.transform(x))), embedding), self.bias)


class Encoder(Model):
    """Tokens in; rows, a sentence vector, scores for masked tokens or scores for classes out."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.embedding_dim or config.dim
        self.embedding = Embedding(config.vocab, width)
        self.segments = Embedding(config.segments, width) if config.segments else None
        self.positions = LearnedPositions(config.first_place + config.context, width)
        self.norm = LayerNorm(width, config.eps)
        self.widen = Linear(width, config.dim) if config.embedding_dim else None
        self.stack = Stack([self._block()] * config.layers if config.shared else self._blocks())
        self.pooler = Linear(config.dim, config.dim) if config.head in ("first", "classes") else None
        self.masked = MaskedHead(config) if config.head == "masked" else None
        self.classes = Linear(config.dim, config.classes) if config.head == "classes" else None

    def _blocks(self) -> list[Block]:
        return [self._block() for _ in range(self.config.layers)]

    def _norm(self) -> LayerNorm:
        return LayerNorm(self.config.dim, self.config.eps)

    def _block(self) -> Block:
        config = self.config
        return Block(
            Attention(Heads(dim=config.dim, heads=config.heads), rate=config.dropout),
            FeedForward(config.dim, config.hidden, ACTIVATIONS[config.activation]),
            around=lambda: Around(self._norm(), "post", config.dropout),
        )

    def check(self, ids: Tensor, keep: Tensor | None = None, segments: Tensor | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab, self.config.context)
        self.check_keep("keep", keep, ids)
        if segments is not None:
            self.check_tokens("segments", segments, self.config.segments)

    @checked_at_the_boundary(check)
    def forward(self, ids: Tensor, keep: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """What the head makes of the rows; `keep` is false for padding, `segments` says first or second text."""
        x = self.embedding(ids)
        if self.segments is not None:
            x = add(x, self.segments(torch.zeros_like(ids) if segments is None else segments))
        x = self.norm(self.positions(x, self.config.first_place))
        if self.training and self.config.dropout > 0:
            x = dropout(x, self.config.dropout)
        x = x if self.widen is None else self.widen(x)
        x = self.stack(x, None if keep is None else padding_mask(keep, dtype=x.dtype))
        if self.masked is not None:
            return self.masked(x, self.embedding.weight)
        if self.config.head == "sentence":
            return normalize(mean_pool(x, keep))
        if self.pooler is None:
            return x
        first = ACTIVATIONS[self.config.pool](self.pooler(row_at(x, 0)))
        return first if self.classes is None else self.classes(first)

    @torch.no_grad()
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Start afresh: small normal weights, cut at two deviations."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(truncated_normal(tuple(weight.shape), 0.02, generator=generator))
