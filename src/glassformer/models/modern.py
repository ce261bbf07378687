"""A fast learner: rotary positions, normalised queries and keys, squared ReLU, and outputs that start at zero."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.equations.activations import squared_relu
from glassformer.equations.attention import soft_cap
from glassformer.equations.initialization import normal
from glassformer.equations.masks import padding_mask
from glassformer.equations.regularization import dropout
from glassformer.layers.attention import Attention, Heads
from glassformer.layers.block import Around, Block
from glassformer.layers.cache import Cache
from glassformer.layers.checked import Checked, Layers, Positive, Probability, Size
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import FeedForward
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model, checked_at_the_boundary
from glassformer.layers.normalization import PlainRMSNorm
from glassformer.layers.patterns import Past
from glassformer.layers.rotary import Rotary
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class ModernConfig(Checked):
    """Sizes of the fast learner."""

    vocab: Size = 32768
    context: Size = 1024
    dim: Size = 768
    layers: Layers = 12
    heads: Size = 6
    kv_heads: Size | None = None
    hidden: Size | None = None
    base: Positive = 10000.0
    cap: Positive = 15.0
    dropout: Probability = 0.0


class Modern(Model):
    """Tokens in, scores for the next token out."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocab, config.dim)
        self.norm = PlainRMSNorm()
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=PlainRMSNorm())
        self.output = Linear(config.dim, config.vocab, bias=False)

    def _block(self) -> Block:
        config = self.config
        shape = Heads(dim=config.dim, heads=config.heads, kv_heads=config.kv_heads, bias=False)
        norms = PlainRMSNorm(), PlainRMSNorm()
        return Block(
            Attention(shape, Past(), Rotary(shape.width, config.base), norms, rate=config.dropout),
            FeedForward(config.dim, config.hidden or 4 * config.dim, squared_relu, bias=False),
            around=lambda: Around(PlainRMSNorm(), "pre", config.dropout),
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
        x = self.norm(self.embedding(ids))
        if self.training and self.config.dropout > 0:
            x = dropout(x, self.config.dropout)
        mask = None if keep is None else padding_mask(keep, dtype=x.dtype)
        x = self.stack(x, mask, cache=cache, moment=moment)
        if cache is not None:
            cache.advance(ids.shape[1])
        return soft_cap(self.output(x), self.config.cap)

    def cache(self, batch: int, slots: int, padding: Tensor | None = None, room: int = 1) -> Cache:
        """An empty cache for sequences of up to so many tokens, the first `padding` columns of each empty."""
        return self.stack.cache(batch, slots, self.embedding.weight, padding, room)

    @torch.no_grad()
    def reset(self, generator: torch.Generator | None = None) -> None:
        """Start afresh: every block and the output begin by saying nothing."""
        for name, weight in self.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                weight.zero_()
            else:
                std = 1.0 if name == "embedding.weight" else weight.shape[0] ** -0.5
                weight.copy_(normal(tuple(weight.shape), std, generator))
