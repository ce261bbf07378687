"""DALL-E: one decoder over the tokens of a caption followed by those of a picture (Ramesh et al., 2021)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from glassformer.equations.initialization import normal, scaled_normal
from glassformer.equations.regularization import dropout
from glassformer.errors import ConfigError
from glassformer.layers.basic import ACTIVATIONS, Embedding, FeedForward, LayerNorm, LearnedPositions, Linear
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, NotNegative, Probability, Size, setting
from glassformer.models.image_autoencoder import ImageAutoencoder, ImageAutoencoderConfig


@dataclass(frozen=True, kw_only=True)
class DALLEConfig(Config):
    """Sizes of a DALL-E; the last ids of the vocabulary are the codes of its autoencoder, those before are text."""

    autoencoder: ImageAutoencoderConfig = setting(
        ImageAutoencoderConfig(), "The autoencoder that turns pictures into tokens."
    )
    vocab: Size = setting(2512, "Tokens in the vocabulary: of text, and the codes of pictures.")
    context: Size = setting(80, "Tokens of a caption with its padding and of a picture together.", 96)
    dim: Size = setting(256, "Dimension of the hidden states.", 128)
    layers: Layers = setting(6, "Number of blocks.", 4)
    heads: Size = setting(8, "Attention heads; they divide dim.", 4)
    ffn_dim: Size | None = setting(None, "Inner dimension of the feed-forward layers; none is 4 × dim.", 1024)
    activation: Literal["gelu_tanh", "gelu", "relu", "silu"] = setting(
        "gelu_tanh", "Activation of the feed-forward layers."
    )
    dropout: Probability = setting(0.0, "Dropout of embeddings, sublayers and attention weights.", 0.1)
    eps: NotNegative = setting(1e-5, "Added to the variance under a norm, against division by zero.", 1e-6)

    @property
    def text_vocab(self) -> int:
        """Tokens of text; picture codes have ids from here on."""
        return self.vocab - self.autoencoder.codes

    @property
    def text_length(self) -> int:
        """Tokens of a caption with its padding."""
        return self.context - self.autoencoder.tokens


class DALLE(CausalLM):
    """Token ids of captions and pictures in, logits for each next token out; it holds its autoencoder, frozen."""

    config: DALLEConfig

    def __init__(self, config: DALLEConfig) -> None:
        super().__init__(config)
        self.autoencoder = ImageAutoencoder(config.autoencoder).requires_grad_(False)
        picture = config.autoencoder
        if config.text_length < 1:
            raise ConfigError(f"context is {config.context}, wanted more than the {picture.tokens} tokens of a picture")
        if config.text_vocab < 1:
            raise ConfigError(f"vocab is {config.vocab}, wanted more than the {picture.codes} codes of pictures")
        self.embedding = Embedding(config.vocab, config.dim)
        self.positions = LearnedPositions(config.context, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=self._norm())
        self.output = Linear(config.dim, config.vocab, bias=False)

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
        """Token embeddings plus position embeddings: each place of a caption and of a picture has its own."""
        x = self.positions(self.embedding(ids), positions=positions)
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw normal weights, scaled down where a block adds to the residual stream."""
        self.autoencoder.init_weights(generator)
        for name, weight in self.named_parameters():
            if weight.dim() > 1 and not name.startswith("autoencoder."):
                shape, layers = tuple(weight.shape), self.config.layers
                adds = name.startswith("stack") and name.endswith(("output.weight", "down.weight"))
                weight.copy_(scaled_normal(shape, 0.02, layers, generator) if adds else normal(shape, 0.02, generator))
