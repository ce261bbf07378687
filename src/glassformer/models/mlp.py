"""A multi-layer perceptron: linear layers with an activation between them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.variance_scaling import xavier_uniform
from glassformer.layers.basic import ACTIVATIONS, Linear
from glassformer.layers.config import Config, Positive, Size, setting
from glassformer.layers.regressor import Regressor


@dataclass(frozen=True, kw_only=True)
class MLPConfig(Config):
    """Widths of a perceptron, from inputs to outputs."""

    inputs: Size = setting(2, "Number of inputs.", 4)
    hidden_dims: tuple[Size, ...] = setting((2,), "Widths of the hidden layers.", (8, 8))
    outputs: Size = setting(1, "Number of outputs.", 2)
    activation: Literal["sigmoid", "tanh", "relu", "gelu"] = setting("relu", "Activation of the hidden layers.")
    input_mean: tuple[float, ...] = setting((), "Mean of each input, which is subtracted; empty for none.", (0.0, 1.0))
    input_std: tuple[Positive, ...] = setting((), "Deviation of each input, which is divided by.", (1.0, 2.0))
    target_mean: tuple[float, ...] = setting((), "Mean of each target, which is added at the end.", (0.5,))
    target_std: tuple[Positive, ...] = setting((), "Deviation of each target, which outputs are multiplied by.", (2.0,))


class MLP(Regressor):
    """Rows of numbers in, rows of numbers out."""

    config: MLPConfig

    def __init__(self, config: MLPConfig) -> None:
        super().__init__(config)
        widths = (config.inputs, *config.hidden_dims, config.outputs)
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise(widths))
        self.activation = ACTIVATIONS[config.activation]

    def network(self, x: Tensor) -> Tensor:
        """Each row on its own."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: Xavier, zero biases."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(xavier_uniform(*weight.shape, generator=generator))
            else:
                weight.zero_()
