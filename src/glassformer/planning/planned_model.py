"""What a plan is of: a model on the device "meta", by its preset, configuration, run folder or file of settings."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoints.load import load
from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.registry import architecture_of, build, presets
from glassformer.suggestions import did_you_mean
from glassformer.training.objective import Objective
from glassformer.training.registry import TASKS, tasks_for


@dataclass(frozen=True)
class PlannedModel:
    """A model with its name and what it is trained on.

    `usual` has the batch, the length, the optimizer and more of its settings, `notes` what of them is not planned.
    """

    name: str
    model: Model
    objective: Objective
    usual: Mapping[str, int | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        """The name of its architecture in the registry."""
        return architecture_of(self.model.config)


def planned_model(model: Model | Config | str | Path) -> PlannedModel:
    """The model to plan; nothing of it is allocated."""
    if isinstance(model, Model):
        return _of(type(model).__name__, model)
    if isinstance(model, Config):
        return _of(architecture_of(model), build(model, device="meta"))
    if not isinstance(model, str | Path) or not str(model):
        wanted = "wanted a model, a configuration, a preset, a run folder or a .toml file of settings"
        raise ConfigError(f"model is {model!r:.60}, {wanted}")
    name, path = str(model), Path(model)
    if path.exists():
        return _of(name, load(path, "meta").model)
    if name in presets():
        return _of(name, build(name, device="meta"))
    hint = did_you_mean(name, presets(), "`glassformer models` lists the presets")
    raise ConfigError(f"there is no preset, folder or file {name!r}; {hint}")


def _of(name: str, model: Model) -> PlannedModel:
    return PlannedModel(name, model, objective_of(model))


def objective_of(model: Model) -> Objective:
    """What the first task that trains such a model trains it on; else the sum of its outputs."""
    if tasks := tasks_for(model):
        return TASKS[tasks[0]].objective
    names = [
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    return Objective(inputs=tuple(names), targets=names[0], loss=sum_of_outputs, baseline=None)


def sum_of_outputs(
    model: Model,
    inputs: Sequence[Tensor],
    targets: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    r_drop: float,
) -> tuple[Tensor, Tensor]:
    """The sum of what a model returns, where no task says what it should return."""
    del weights, label_smoothing, r_drop
    return model(*inputs).sum(), torch.tensor(len(targets), device=targets.device)
