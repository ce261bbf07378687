"""Averages of weights: an exponential moving average during training, or the mean of the last checkpoints."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from glassformer.checkpoints.run_checkpoints import AVERAGE
from glassformer.equations.schedules import ema_warmup
from glassformer.errors import CheckpointError, RunFolderError
from glassformer.layers.model import Model
from glassformer.torch_private import lerp_all
from glassformer.training.distributed import sharded_like, unsharded
from glassformer.training.run_folder import RunFolder


class EMA:
    """Exponential moving average (EMA) of the weights, used for evaluation; `ema_warmup` sets its decay."""

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.weights = {name: value.detach().clone() for name, value in self.parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move towards the weights after a step, counted from 1."""
        now = [value.detach() for value in self.parameters.values()]
        lerp_all(list(self.weights.values()), now, 1 - ema_warmup(step, self.decay))

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """The average in place of the model's weights, while inside."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, value in self.parameters.items():
            kept = value.detach().clone()
            value.copy_(self.weights[name])
            self.weights[name].copy_(kept)

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Leave the average in the model for good."""
        for name, value in self.parameters.items():
            value.copy_(self.weights[name])

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint holds."""
        return {AVERAGE + name: unsharded(value) for name, value in self.weights.items()}

    @torch.no_grad()
    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, value in self.weights.items():
            if AVERAGE + name not in state:
                raise CheckpointError(
                    f"the checkpoint has no average of {name}: it was made without `recipe.ema_decay`"
                )
            value.copy_(sharded_like(state[AVERAGE + name], value))


def average_checkpoints(folder: RunFolder, count: int) -> dict[str, Tensor]:
    """The mean of the weights of the last planned checkpoints (Vaswani et al., 2017, took five)."""
    steps = folder.planned()[-count:]
    if not steps:
        raise RunFolderError(f"{folder.path}: holds no checkpoint to average")
    newest = folder.load(steps[-1]).model
    total = {name: value.double() for name, value in newest.items()}
    for step in steps[:-1]:
        for name, value in folder.load(step).model.items():
            total[name] += value
    return {name: (value / len(steps)).to(newest[name].dtype) for name, value in total.items()}
