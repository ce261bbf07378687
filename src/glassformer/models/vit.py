"""ViT: a picture as a sequence of patches, read by an encoder with pre-norm blocks (Dosovitskiy et al., 2021)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.patches import prepend_token
from glassformer.equations.regularization import dropout
from glassformer.equations.sequences import mean_pool, select_position
from glassformer.equations.variance_scaling import truncated_normal, xavier_uniform
from glassformer.layers.basic import ACTIVATIONS, FeedForward, LayerNorm, LearnedPositions, Linear
from glassformer.layers.block import Attention, AttentionShape, Block, Stack
from glassformer.layers.config import Config, Layers, NotNegative, Probability, Size, setting
from glassformer.layers.image_classifier import ChannelDeviations, ChannelMeans, ImageClassifier
from glassformer.layers.model import checks_inputs
from glassformer.layers.patches import PatchEmbedding
from glassformer.layers.positions import SinusoidalPositions2D


@dataclass(frozen=True, kw_only=True)
class ViTConfig(Config):
    """Sizes of a ViT; `head` chooses the output, `pool` the vector that a classifier reads."""

    image_size: Size = setting(224, "Side of the pictures in pixels; patch_size divides it.", 32)
    channels: Size = setting(3, "Channels of a pixel: 1 is gray, 3 is color.", 1)
    patch_size: Size = setting(16, "Side of a patch in pixels; it divides the side of the pictures.", 4)
    dim: Size = setting(768, "Dimension of the hidden states.", 256)
    layers: Layers = setting(12, "Number of blocks.", 6)
    heads: Size = setting(12, "Attention heads; they divide dim.", 8)
    ffn_dim: Size = setting(3072, "Inner dimension of the feed-forward layers.", 1024)
    positions: Literal["learned", "sinusoidal"] = setting(
        "learned", "Position of a patch: one learned vector each, or sines and cosines of its row and column."
    )
    pool: Literal["class", "mean"] = setting(
        "class", "What the classifier reads: a class token before the patches, or the mean of all patches."
    )
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = setting("gelu", "Activation of the feed-forward layers.")
    head: Literal["hidden", "pooled", "classifier"] = setting("classifier", "What the model returns.")
    classes: Size = setting(2, "Number of classes of a classifier.", 10)
    dropout: Probability = setting(0.0, "Dropout of embeddings and sublayers.", 0.1)
    attention_dropout: Probability = setting(0.0, "Dropout of attention weights.", 0.1)
    eps: NotNegative = setting(1e-12, "Added to the variance under a norm, against division by zero.", 1e-6)
    image_mean: ChannelMeans = setting((0.5, 0.5, 0.5), "Mean of each channel, from 0 to 1, subtracted from pixels.")
    image_std: ChannelDeviations = setting((0.5, 0.5, 0.5), "Deviation of each channel, by which pixels are divided.")


class ViT(ImageClassifier):
    """Pictures [batch, channels, height, width] in; logits of classes, a pooled vector or hidden states out."""

    config: ViTConfig

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        self.patches = PatchEmbedding(config.image_size, config.patch_size, config.channels, config.dim)
        first = 1 if config.pool == "class" else 0
        self.class_token = nn.Parameter(torch.empty(config.dim)) if first else None
        learned = config.positions == "learned"
        self.positions = LearnedPositions(self.patches.patches + first, config.dim) if learned else None
        self.waves = None if learned else SinusoidalPositions2D(self.patches.side, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], LayerNorm(config.dim, config.eps))
        self.pooler = Linear(config.dim, config.dim) if config.head == "pooled" else None
        self.classifier = Linear(config.dim, config.classes) if config.head == "classifier" else None

    def _block(self) -> Block:
        config = self.config
        return Block(
            Attention(AttentionShape.of(dim=config.dim, heads=config.heads), dropout=config.attention_dropout),
            FeedForward(config.dim, config.ffn_dim, ACTIVATIONS[config.activation]),
            norm=lambda: LayerNorm(config.dim, config.eps),
            dropout=config.dropout,
        )

    @property
    def sequence_length(self) -> int:
        """Patches of a picture, and the class token if there is one."""
        return self.patches.patches + (self.class_token is not None)

    def hidden_states(self, pixel_values: Tensor) -> Tensor:
        """Hidden states [batch, seq, dim] after the last norm, which the head reads."""
        x = self.patches(pixel_values)
        x = x if self.waves is None else self.waves(x)
        x = x if self.class_token is None else prepend_token(self.class_token, x)
        x = x if self.positions is None else self.positions(x)
        if self.training and self.config.dropout > 0:
            x = dropout(x, self.config.dropout)
        return self.stack(x)

    def check(self, pixel_values: Tensor) -> None:
        """Raise on pictures the model cannot take."""
        self.check_pictures(pixel_values)

    @checks_inputs(check)
    def forward(self, pixel_values: Tensor) -> Tensor:
        """What the head returns for pictures whose pixels are normalized."""
        x = self.hidden_states(pixel_values)
        if self.config.head == "hidden":
            return x
        pooled = mean_pool(x) if self.class_token is None else select_position(x, 0)
        if self.classifier is not None:
            return self.classifier(pooled)
        assert self.pooler is not None
        return ACTIVATIONS["tanh"](self.pooler(pooled))

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: Xavier for linear layers, small normal ones for positions and the class token."""
        for name, weight in self.named_parameters():
            if name in ("class_token", "positions.weight"):
                weight.copy_(truncated_normal(tuple(weight.shape), 0.02, generator=generator))
            elif weight.dim() > 1:
                weight.copy_(xavier_uniform(*weight.shape, generator=generator))
