"""GPT-2: a decoder alone, learned positions, norms before the sublayers, a tied output (Radford et al., 2019)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.equations.activations import gelu_tanh
from glassformer.equations.embedding import unembed
from glassformer.equations.initialization import normal
from glassformer.equations.masks import padding_mask
from glassformer.equations.regularization import dropout
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import FeedForward
from glassformer.layers.model import Model, checked_at_the_boundary
from glassformer.layers.normalization import LayerNorm
from glassformer.layers.patterns import Past
from glassformer.layers.positions import LearnedPositions
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Sizes of a GPT-2."""

    vocab: int = 50257
    context: int = 1024
    dim: int = 768
    layers: int = 12
    heads: int = 12
    hidden: int | None = None
    dropout: float = 0.0
    eps: float = 1e-5


class GPT(Model):
    """Tokens in, scores for the next token out."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocab, config.dim)
        self.positions = LearnedPositions(config.context, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=self._norm())

    def _norm(self) -> LayerNorm:
        return LayerNorm(self.config.dim, self.config.eps)

    def _block(self) -> Block:
        config = self.config
        return Block(
            Attention(Heads(dim=config.dim, heads=config.heads), Past()),
            FeedForward(config.dim, config.hidden or 4 * config.dim, gelu_tanh),
            around=lambda: Around(self._norm(), "pre", config.dropout),
        )

    def check(self, ids: Tensor, keep: Tensor | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab, self.config.context)
        self.check_keep("keep", keep, ids)

    @checked_at_the_boundary(check)
    def forward(self, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        """Scores [batch, seq, vocab] from tokens [batch, seq]; `keep` is false for padding."""
        x = self.positions(self.embedding(ids))
        if self.training and self.config.dropout > 0:
            x = dropout(x, self.config.dropout)
        mask = None if keep is None else padding_mask(keep, dtype=x.dtype)
        return unembed(self.stack(x, mask), self.embedding.weight)

    @torch.no_grad()
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Start afresh: small normal weights, smaller still where a block adds to the rows."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                into_rows = name.endswith(("output.weight", "down.weight"))
                std = 0.02 / math.sqrt(2 * self.config.layers) if into_rows else 0.02
                weight.copy_(normal(tuple(weight.shape), std, generator))
