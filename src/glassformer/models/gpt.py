"""GPT-2: a decoder alone, learned positions, norms before the sublayers, a tied output (Radford et al., 2019)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.initialization import normal, scaled_normal
from glassformer.equations.regularization import dropout
from glassformer.layers.basic import ACTIVATIONS, Embedding, FeedForward, LayerNorm, LearnedPositions, Linear
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, NotNegative, Probability, Size, setting


@dataclass(frozen=True, kw_only=True)
class GPTConfig(Config):
    """Sizes of a GPT-2; minGPT does not tie embeddings."""

    vocab: Size = setting(50257, "Tokens in the vocabulary.")
    context: Size = setting(1024, "Most tokens the model can read at once.", 256)
    dim: Size = setting(768, "Dimension of the hidden states.", 256)
    layers: Layers = setting(12, "Number of blocks.", 6)
    heads: Size = setting(12, "Attention heads; they divide dim.", 8)
    ffn_dim: Size | None = setting(None, "Inner dimension of the feed-forward layers; none is 4 × dim.", 1024)
    activation: Literal["gelu_tanh", "gelu", "relu", "silu"] = setting(
        "gelu_tanh", "Activation of the feed-forward layers."
    )
    tie_embeddings: bool = setting(True, "Whether the output layer shares the embedding's weights.")
    head: Literal["lm", "classifier"] = setting("lm", "What the model returns: logits of next tokens, or of classes.")
    classes: Size = setting(2, "Number of classes of a classifier.", 5)
    dropout: Probability = setting(0.0, "Dropout of embeddings, sublayers and attention weights.", 0.1)
    eps: NotNegative = setting(1e-5, "Added to the variance under a norm, against division by zero.", 1e-6)


class GPT(CausalLM):
    """Token ids in, logits for each next token out."""

    config: GPTConfig

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.positions = LearnedPositions(config.context, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=self._norm())
        self.output: nn.Module | None = None if config.tie_embeddings else Linear(config.dim, config.vocab, bias=False)

    def _norm(self) -> LayerNorm:
        return LayerNorm(self.config.dim, self.config.eps)

    def _block(self) -> Block:
        config = self.config
        return Block(
            Attention(
                AttentionShape.of(dim=config.dim, heads=config.heads), Causal(), dropout=config.dropout, fused_qkv=True
            ),
            FeedForward(config.dim, config.ffn_dim or 4 * config.dim, ACTIVATIONS[config.activation]),
            norm=self._norm,
            dropout=config.dropout,
        )

    def embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Token embeddings plus position embeddings."""
        x = self.positions(self.embedding(ids), positions=positions)
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw normal weights, scaled down where a block adds to the residual stream."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                shape, layers = tuple(weight.shape), self.config.layers
                adds = name.startswith("stack") and name.endswith(("output.weight", "down.weight"))
                weight.copy_(scaled_normal(shape, 0.02, layers, generator) if adds else normal(shape, 0.02, generator))
