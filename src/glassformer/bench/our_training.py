"""Our side of a training benchmark: the training object of a run, as `glassformer train` makes it."""

from collections.abc import Callable

import torch

from glassformer.bench.measure import OURS, Runner, Step
from glassformer.data.batches import Batches
from glassformer.layers.config import Config
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.objective import LossModule, Objective
from glassformer.training.recipe import Recipe
from glassformer.training.step import Training


def our_runner(
    config: Config,
    batches: Callable[[], Batches],
    objective: Objective,
    recipe: Recipe,
    device: Device,
    counted: bool = False,
) -> Runner:
    """A runner that trains a model as a run does; `counted` is for steps that differ in their number of tokens."""
    made: list[Training] = []

    def start() -> Step:
        made.clear()
        torch.manual_seed(recipe.seed)
        loss_module = LossModule(build(config, seed=recipe.seed), objective, recipe.r_drop)
        training = Training(loss_module, batches(), recipe, device, ALONE)
        training.model.train()
        made.append(training)
        return training.train_step

    def require_finite() -> None:
        made[0].raise_if_nonfinite()

    return Runner(OURS, start, (lambda: int(made[0].tokens)) if counted else None, require_finite)
