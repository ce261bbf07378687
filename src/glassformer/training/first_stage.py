"""The first stage of a task that trains in two: a model trained on its own, in a folder inside that of the run."""

from pathlib import Path

from glassformer.checkpoints.save import save
from glassformer.data.batches import Batches
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.loop import train
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.task import StageLog


def train_first_stage(
    model: Model,
    sides: tuple[Batches, Batches],
    objective: Objective,
    recipe: Recipe,
    device: Device,
    folder: Path | None,
    log: StageLog,
) -> Model:
    """Train a model on batches for training and validation, and save it in a folder, from which it is resumed."""
    batches, validation = sides
    run = None if folder is None else RunFolder(folder)
    for line in train(model, batches, objective, recipe, run, validation, device):
        if line.validation is not None:
            log(line.step, line.validation)
    if run is None:
        return model.to("cpu")
    best = build(model.config, recipe.seed)
    best.load_state_dict(run.best_or_newest().model)
    save(best, run.path, in_run=True)
    return best
