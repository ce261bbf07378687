"""CNN: a residual convolutional network that classifies pictures, the baseline beside a ViT (He et al., 2016)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.patches import patchify
from glassformer.equations.regularization import dropout
from glassformer.equations.sequences import mean_pool
from glassformer.equations.variance_scaling import he_normal
from glassformer.errors import ConfigError
from glassformer.layers.basic import Linear
from glassformer.layers.config import Config, Layers, Probability, Size, setting
from glassformer.layers.convolution import Conv2d, GroupNorm, ResidualConvolutions
from glassformer.layers.image_classifier import ChannelDeviations, ChannelMeans, ImageClassifier
from glassformer.layers.model import checks_inputs

DOUBLINGS = 2  # how often a picture is halved and its channels doubled, while it can be


@dataclass(frozen=True, kw_only=True)
class CNNConfig(Config):
    """Sizes of a CNN; twice the picture is halved and its channels are doubled."""

    image_size: Size = setting(32, "Side of the pictures in pixels.", 28)
    channels: Size = setting(3, "Channels of a pixel: 1 is gray, 3 is color.", 1)
    dim: Size = setting(64, "Channels of the last feature maps; the first have a quarter of them.", 128)
    layers: Layers = setting(1, "Residual blocks, each of two convolutions, at each of three resolutions.", 2)
    groups: Size = setting(4, "Groups of channels that are normalized together; they divide dim / 4.", 8)
    head: Literal["classifier"] = setting("classifier", "What the model returns.")
    classes: Size = setting(10, "Number of classes.", 5)
    dropout: Probability = setting(0.0, "Dropout of the vector that the classifier reads.", 0.1)
    image_mean: ChannelMeans = setting((0.5, 0.5, 0.5), "Mean of each channel, from 0 to 1, subtracted from pixels.")
    image_std: ChannelDeviations = setting((0.5, 0.5, 0.5), "Deviation of each channel, by which pixels are divided.")


class CNN(ImageClassifier):
    """Pictures [batch, channels, height, width] in, logits of classes out."""

    config: CNNConfig

    def __init__(self, config: CNNConfig) -> None:
        super().__init__(config)
        first = config.dim // 2**DOUBLINGS
        if config.dim % 2**DOUBLINGS or first % config.groups:
            raise ConfigError(f"dim is {config.dim}, wanted a multiple of {2**DOUBLINGS} × groups, {config.groups}")
        self.stem = Conv2d(config.channels, first, 3, padding=1)
        stages: list[nn.Module] = []
        for number in range(DOUBLINGS + 1):
            width = first * 2**number
            if number:
                stages.append(Conv2d(width // 2, width, 3, stride=2, padding=1))
            stages += [ResidualConvolutions(width, config.groups) for _ in range(config.layers)]
        self.stages = nn.ModuleList(stages)
        self.norm = GroupNorm(config.dim, config.groups)
        self.classifier = Linear(config.dim, config.classes)

    @property
    def sequence_length(self) -> int:
        """Places of the last feature maps."""
        side = self.config.image_size
        for _ in range(DOUBLINGS):
            side = (side + 1) // 2
        return side * side

    def check(self, pixel_values: Tensor) -> None:
        """Raise on pictures the model cannot take."""
        self.check_pictures(pixel_values)

    @checks_inputs(check)
    def forward(self, pixel_values: Tensor) -> Tensor:
        """Logits of pictures whose pixels are normalized."""
        x = self.stem(pixel_values)
        for stage in self.stages:
            x = stage(x)
        pooled = mean_pool(patchify(self.norm(x), 1))
        if self.training and self.config.dropout > 0:
            pooled = dropout(pooled, self.config.dropout)
        return self.classifier(pooled)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: He's normal by the inputs of each filter; biases stay zero."""
        for weight in self.parameters():
            if weight.dim() > 1:
                inputs, outputs = weight[0].numel(), len(weight)
                if weight.dim() == 2:
                    inputs, outputs = weight.shape
                drawn = he_normal(inputs, outputs, generator=generator)
                weight.copy_(drawn if weight.dim() == 2 else drawn.T.reshape(weight.shape))
