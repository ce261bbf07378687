"""A multi-layer perceptron that classifies pictures: all pixels of a picture as one row of numbers."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.patches import patchify
from glassformer.equations.regularization import dropout
from glassformer.equations.sequences import select_position
from glassformer.equations.variance_scaling import he_normal
from glassformer.layers.basic import ACTIVATIONS, Linear
from glassformer.layers.config import Config, Layers, Probability, Size, setting
from glassformer.layers.image_classifier import ChannelDeviations, ChannelMeans, ImageClassifier
from glassformer.layers.model import checks_inputs


@dataclass(frozen=True, kw_only=True)
class ImageMLPConfig(Config):
    """Sizes of a perceptron for pictures."""

    image_size: Size = setting(32, "Side of the pictures in pixels.", 28)
    channels: Size = setting(3, "Channels of a pixel: 1 is gray, 3 is color.", 1)
    dim: Size = setting(128, "Width of the hidden layers.", 256)
    layers: Layers = setting(2, "Hidden layers.", 3)
    activation: Literal["sigmoid", "tanh", "relu", "gelu"] = setting("relu", "Activation of the hidden layers.")
    head: Literal["classifier"] = setting("classifier", "What the model returns.")
    classes: Size = setting(10, "Number of classes.", 5)
    dropout: Probability = setting(0.0, "Dropout of the hidden layers.", 0.1)
    image_mean: ChannelMeans = setting((0.5, 0.5, 0.5), "Mean of each channel, from 0 to 1, subtracted from pixels.")
    image_std: ChannelDeviations = setting((0.5, 0.5, 0.5), "Deviation of each channel, by which pixels are divided.")


class ImageMLP(ImageClassifier):
    """Pictures [batch, channels, height, width] in, logits of classes out; it is not told what is beside what."""

    config: ImageMLPConfig

    def __init__(self, config: ImageMLPConfig) -> None:
        super().__init__(config)
        inputs = [config.channels * config.image_size**2, *[config.dim] * (config.layers - 1)]
        self.hidden = nn.ModuleList(Linear(width, config.dim) for width in inputs)
        self.classifier = Linear(config.dim, config.classes)
        self.activation = ACTIVATIONS[config.activation]

    @property
    def sequence_length(self) -> int:
        """A picture is one position."""
        return 1

    def check(self, pixel_values: Tensor) -> None:
        """Raise on pictures the model cannot take."""
        self.check_pictures(pixel_values)

    @checks_inputs(check)
    def forward(self, pixel_values: Tensor) -> Tensor:
        """Logits of pictures whose pixels are normalized."""
        x = select_position(patchify(pixel_values, self.config.image_size), 0)  # the one patch is the picture
        for layer in self.hidden:
            x = self.activation(layer(x))
            if self.training and self.config.dropout > 0:
                x = dropout(x, self.config.dropout)
        return self.classifier(x)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: He's normal, zero biases."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(he_normal(*weight.shape, generator=generator))
