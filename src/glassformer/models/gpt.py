"""GPT-2: a decoder alone, learned positions, norms before the sublayers, a tied output (Radford et al., 2019)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.embedding import unembed
from glassformer.equations.initialization import normal
from glassformer.equations.masks import padding_mask
from glassformer.equations.regularization import dropout
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.cache import Cache
from glassformer.layers.checked import Checked, Layers, NotNegative, Probability, Size
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import ACTIVATIONS, FeedForward
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model, checked_at_the_boundary
from glassformer.layers.normalization import LayerNorm
from glassformer.layers.patterns import Past
from glassformer.layers.positions import LearnedPositions
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class GPTConfig(Checked):
    """Sizes of a GPT-2; minGPT's are not `tied`."""

    vocab: Size = 50257
    context: Size = 1024
    dim: Size = 768
    layers: Layers = 12
    heads: Size = 12
    hidden: Size | None = None
    activation: Literal["gelu_tanh", "gelu", "relu", "silu"] = "gelu_tanh"
    tied: bool = True
    dropout: Probability = 0.0
    eps: NotNegative = 1e-5


class GPT(Model):
    """Tokens in, scores for the next token out."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocab, config.dim)
        self.positions = LearnedPositions(config.context, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=self._norm())
        self.output: nn.Module | None = None if config.tied else Linear(config.dim, config.vocab, bias=False)

    def _norm(self) -> LayerNorm:
        return LayerNorm(self.config.dim, self.config.eps)

    def _block(self) -> Block:
        config = self.config
        return Block(
            Attention(Heads(dim=config.dim, heads=config.heads), Past(), rate=config.dropout),
            FeedForward(config.dim, config.hidden or 4 * config.dim, ACTIVATIONS[config.activation]),
            around=lambda: Around(self._norm(), "pre", config.dropout),
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
        x = self.positions(self.embedding(ids), places=None if moment is None else moment.places)
        if self.training and self.config.dropout > 0:
            x = dropout(x, self.config.dropout)
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
        """Start afresh: small normal weights, smaller still where a block adds to the rows."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                into_rows = name.startswith("stack") and name.endswith(("output.weight", "down.weight"))
                std = 0.02 / math.sqrt(2 * self.config.layers) if into_rows else 0.02
                weight.copy_(normal(tuple(weight.shape), std, generator))
