"""Linear regression: each output is a weighted sum of the inputs plus a bias."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.equations.variance_scaling import xavier_uniform
from glassformer.layers.basic import Linear
from glassformer.layers.config import Config, Positive, Size, setting
from glassformer.layers.regressor import Regressor


@dataclass(frozen=True, kw_only=True)
class LinearConfig(Config):
    """Inputs and outputs of a linear regression."""

    inputs: Size = setting(1, "Number of inputs.", 4)
    outputs: Size = setting(1, "Number of outputs.", 2)
    input_mean: tuple[float, ...] = setting((), "Mean of each input, which is subtracted; empty for none.", (0.5,))
    input_std: tuple[Positive, ...] = setting((), "Deviation of each input, which is divided by.", (2.0,))
    target_mean: tuple[float, ...] = setting((), "Mean of each target, which is added at the end.", (0.5,))
    target_std: tuple[Positive, ...] = setting((), "Deviation of each target, which outputs are multiplied by.", (2.0,))


class LinearRegression(Regressor):
    """Rows of numbers in, rows of numbers out, by one linear map."""

    config: LinearConfig

    def __init__(self, config: LinearConfig) -> None:
        super().__init__(config)
        self.layer = Linear(config.inputs, config.outputs)

    def network(self, x: Tensor) -> Tensor:
        """Each row on its own."""
        return self.layer(x)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: Xavier, a zero bias; the loss has one minimum, so any will do."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(xavier_uniform(*weight.shape, generator=generator))
            else:
                weight.zero_()
