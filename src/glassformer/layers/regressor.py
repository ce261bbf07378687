"""The base of models that predict numbers from numbers."""

from abc import abstractmethod

from torch import Tensor

from glassformer.equations.standardizing import standardize, unstandardize
from glassformer.errors import ConfigError, ModelError
from glassformer.layers.config import Config
from glassformer.layers.model import Model, checks_inputs


class Regressor(Model):
    """Rows of numbers in, rows of numbers out.

    Its configuration has the `inputs` and `outputs` of a row, and `input_mean`, `input_std`, `target_mean` and
    `target_std` of the data it was trained on, which it computes between; without them it computes on numbers as
    they are.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        values = vars(config)
        for name, count in (("input", values["inputs"]), ("target", values["outputs"])):
            for part in ("mean", "std"):
                given = len(values[f"{name}_{part}"])
                if given not in (0, count) or bool(given) != bool(values[f"{name}_std"]):
                    raise ConfigError(f"{name}_{part} has {given} numbers, wanted {count}")

    def check(self, x: Tensor) -> None:
        """Raise on rows the model cannot take."""
        if not x.is_floating_point() or x.dim() == 0 or x.shape[-1] != self.config.inputs:
            raise ModelError(
                f"{type(self).__name__}: x has shape {list(x.shape)} and type {x.dtype}, "
                f"wanted rows of {self.config.inputs} float numbers"
            )

    @abstractmethod
    def network(self, x: Tensor) -> Tensor:
        """Outputs from inputs, both with mean zero and deviation one where those of the data are known."""

    @checks_inputs(check)
    def forward(self, x: Tensor) -> Tensor:
        """Each row on its own, in and out in the units of the data."""
        config = self.config
        if config.input_std:
            x = standardize(x, config.input_mean, config.input_std)
        y = self.network(x)
        if config.target_std:
            y = unstandardize(y, config.target_mean, config.target_std)
        return y
