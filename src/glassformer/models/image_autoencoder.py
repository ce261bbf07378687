"""A discrete image autoencoder: pictures to tokens and back, by finite scalar quantization (Mentzer et al., 2023).

DALL-E has one with a learned codebook; here the codes are the points of a grid, so that none is ever unused.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import torch
from msgspec import Meta
from torch import Tensor, nn

from glassformer.equations.activations import silu
from glassformer.equations.convolution import upsample
from glassformer.equations.patches import patchify, unpatchify
from glassformer.equations.variance_scaling import he_normal
from glassformer.equations.vector_quantization import (
    bound_to_levels,
    code_ids,
    code_levels,
    normalize_levels,
    round_straight_through,
)
from glassformer.errors import ConfigError, ModelError
from glassformer.layers.config import Config, Layers, Size, setting
from glassformer.layers.convolution import Conv2d, GroupNorm, ResidualConvolutions
from glassformer.layers.model import Model, checks_inputs
from glassformer.layers.pixels import check_pixels

Halvings = Annotated[int, Meta(ge=0, le=8)]
Level = Annotated[int, Meta(ge=2, le=256)]
MOST_CODES = 2**20
ADDS = 0.1  # of the usual scale: the last convolution of a residual block, so that it begins near the identity


@dataclass(frozen=True, kw_only=True)
class ImageAutoencoderConfig(Config):
    """Sizes of an autoencoder; a picture has (image_size / 2^halvings)² tokens, and codes are the product of levels."""

    image_size: Size = setting(32, "Side of a picture in pixels.", 64)
    channels: Size = setting(3, "Channels of a picture: 1 for gray, 3 for color.", 1)
    features: Size = setting(64, "Channels of the feature maps at full size; twice as many at smaller ones.", 32)
    halvings: Halvings = setting(2, "How often the side is halved before pixels become tokens.", 3)
    blocks: Layers = setting(2, "Residual blocks at each size.", 1)
    levels: tuple[Level, ...] = setting(
        (8, 8, 8), "Levels of each number of a token; their product is the number of codes.", (8, 5, 5, 5)
    )
    groups: Size = setting(8, "Groups of channels that are normalized together; they divide features.", 4)

    @property
    def codes(self) -> int:
        """Number of codes: the vocabulary of the picture's tokens."""
        return math.prod(self.levels)

    @property
    def side(self) -> int:
        """Rows of tokens in a picture."""
        return self.image_size // 2**self.halvings

    @property
    def tokens(self) -> int:
        """Tokens of a picture."""
        return self.side**2

    @property
    def widths(self) -> list[int]:
        """Channels of the feature maps at each size, from full size down."""
        return [self.features, *[2 * self.features] * self.halvings]


def _blocks(config: ImageAutoencoderConfig, channels: int) -> nn.Sequential:
    return nn.Sequential(*(ResidualConvolutions(channels, config.groups) for _ in range(config.blocks)))


class PictureEncoder(nn.Module):
    """Convolutions from a picture down to one vector for each token."""

    def __init__(self, config: ImageAutoencoderConfig) -> None:
        super().__init__()
        widths = config.widths
        self.input = Conv2d(config.channels, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList(_blocks(config, width) for width in widths)
        self.down = nn.ModuleList(Conv2d(large, small, 4, stride=2, padding=1) for large, small in pairwise(widths))
        self.norm = GroupNorm(widths[-1], config.groups)
        self.output = Conv2d(widths[-1], len(config.levels), 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Vectors [batch, tokens, levels] of pictures [batch, channels, height, width]."""
        x = self.blocks[0](self.input(pixel_values))
        for down, blocks in zip(self.down, self.blocks[1:], strict=True):
            x = blocks(down(x))
        return patchify(self.output(silu(self.norm(x))), 1)


class PictureDecoder(nn.Module):
    """Convolutions from the vectors of tokens up to a picture."""

    def __init__(self, config: ImageAutoencoderConfig) -> None:
        super().__init__()
        widths, self.side = config.widths[::-1], config.side
        self.input = Conv2d(len(config.levels), widths[0], 3, padding=1)
        self.blocks = nn.ModuleList(_blocks(config, width) for width in widths)
        self.up = nn.ModuleList(Conv2d(small, large, 3, padding=1) for small, large in pairwise(widths))
        self.norm = GroupNorm(widths[-1], config.groups)
        self.output = Conv2d(widths[-1], config.channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures [batch, channels, height, width] from vectors [batch, tokens, levels]."""
        x = self.blocks[0](self.input(unpatchify(x, 1, self.side)))
        for up, blocks in zip(self.up, self.blocks[1:], strict=True):
            x = blocks(up(upsample(x, 2)))
        return self.output(silu(self.norm(x)))


class ImageAutoencoder(Model):
    """Pictures in, the same pictures through their tokens out; pixels are from 0 to 1."""

    config: ImageAutoencoderConfig

    def __init__(self, config: ImageAutoencoderConfig) -> None:
        super().__init__(config)
        if config.image_size % 2**config.halvings:
            half = f"cannot be halved {config.halvings} times"
            raise ConfigError(f"halvings is {config.halvings}, but pictures of {config.image_size} pixels {half}")
        if not config.levels or config.codes > MOST_CODES:
            raise ConfigError(f"levels is {config.levels}, wanted at least one number and at most {MOST_CODES:,} codes")
        self.encoder = PictureEncoder(config)
        self.decoder = PictureDecoder(config)

    def check(self, pixel_values: Tensor) -> None:
        """Raise on pictures the model cannot take."""
        check_pixels(type(self).__name__, pixel_values, self.config.image_size, self.config.channels)

    @checks_inputs(check)
    def forward(self, pixel_values: Tensor) -> Tensor:
        """Reconstructions [batch, channels, height, width]; gradients pass straight through the rounding."""
        q = round_straight_through(bound_to_levels(self.encoder(pixel_values), self.config.levels))
        return self.decoder(normalize_levels(q, self.config.levels))

    @checks_inputs(check)
    def encode(self, pixel_values: Tensor) -> Tensor:
        """Token ids [batch, tokens] of pictures, row by row."""
        u = bound_to_levels(self.encoder(pixel_values), self.config.levels)
        return code_ids(round_straight_through(u), self.config.levels)

    def check_codes(self, ids: Tensor) -> None:
        """Raise on tokens that are not those of whole pictures."""
        self.check_tokens("ids", ids, self.config.codes)
        if ids.shape[1] != self.config.tokens:
            raise ModelError(
                f"ImageAutoencoder: {ids.shape[1]} ids, wanted {self.config.tokens}, the tokens of a picture"
            )

    @checks_inputs(check_codes)
    def decode(self, ids: Tensor) -> Tensor:
        """Pictures [batch, channels, height, width] from token ids [batch, tokens]."""
        levels, dtype = self.config.levels, next(self.parameters()).dtype
        return self.decoder(normalize_levels(code_levels(ids, levels, dtype), levels))

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw normal weights by the number of inputs, small where a block adds to what it reads."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                outputs, inputs = len(weight), weight[0].numel()
                scale = ADDS if name.endswith("conv2.weight") else 1.0
                weight.copy_(scale * he_normal(inputs, outputs, generator).T.reshape(weight.shape))
