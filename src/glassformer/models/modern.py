"""A fast learner: rotary positions, normalised queries and keys, squared ReLU, and outputs that start at zero."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.equations.activations import squared_relu
from glassformer.equations.attention_steps import soft_cap
from glassformer.equations.initialization import normal
from glassformer.equations.regularization import dropout
from glassformer.layers.attention import Attention, AttentionShape
from glassformer.layers.block import Block
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, Positive, Probability, Size
from glassformer.layers.embedding import Embedding
from glassformer.layers.feed_forward import FeedForward
from glassformer.layers.linear import Linear
from glassformer.layers.normalization import PlainRMSNorm
from glassformer.layers.patterns import Causal
from glassformer.layers.rotary import Rotary
from glassformer.layers.stack import Stack


@dataclass(frozen=True, kw_only=True)
class ModernConfig(Config):
    """Sizes of the fast learner."""

    vocab: Size = 32768
    context: Size = 1024
    dim: Size = 768
    layers: Layers = 12
    heads: Size = 6
    kv_heads: Size | None = None
    ffn_dim: Size | None = None
    rope_theta: Positive = 10000.0
    logit_softcap: Positive = 15.0
    dropout: Probability = 0.0


class Modern(CausalLM):
    """Token ids in, logits for each next token out."""

    config: ModernConfig

    def __init__(self, config: ModernConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.norm = PlainRMSNorm()
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=PlainRMSNorm())
        self.output = Linear(config.dim, config.vocab, bias=False)

    def _block(self) -> Block:
        config = self.config
        shape = AttentionShape.of(dim=config.dim, heads=config.heads, kv_heads=config.kv_heads, bias=False)
        norms = PlainRMSNorm(), PlainRMSNorm()
        return Block(
            Attention(shape, Causal(), Rotary(shape.head_dim, config.rope_theta), norms, dropout=config.dropout),
            FeedForward(config.dim, config.ffn_dim or 4 * config.dim, squared_relu, bias=False),
            norm=PlainRMSNorm,
            dropout=config.dropout,
        )

    def embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Normalized token embeddings."""
        x = self.norm(self.embedding(ids))
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    def unembed(self, x: Tensor) -> Tensor:
        """Logits, kept within plus and minus `logit_softcap`."""
        return soft_cap(super().unembed(x), self.config.logit_softcap)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Start afresh: every block and the output begin by saying nothing."""
        for name, weight in self.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                weight.zero_()
            else:
                std = 1.0 if name == "embedding.weight" else weight.shape[0] ** -0.5
                weight.copy_(normal(tuple(weight.shape), std, generator))
