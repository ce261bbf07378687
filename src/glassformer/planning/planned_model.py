"""What a plan is of: a model on the device "meta", by its preset, configuration, run folder or file of settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from glassformer.checkpoints.load import load
from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.registry import architecture_of, build, presets
from glassformer.planning.example_batch import objective_of
from glassformer.suggestions import did_you_mean
from glassformer.training.config import resolve
from glassformer.training.objective import Objective
from glassformer.training.registry import TASKS

BATCH = ("batch_size", "pairs_per_batch")  # settings of data that say how many rows a batch has
LENGTH = ("max_length", "length", "context")  # and how many tokens each has


@dataclass(frozen=True)
class PlannedModel:
    """A model with its name and what it is trained on; `usual` has the batch, length and optimizer of its settings."""

    name: str
    model: Model
    objective: Objective
    usual: Mapping[str, int | str] = field(default_factory=dict)

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
        wanted = "wanted a model, a configuration, a preset, a run folder or a .toml file"
        raise ConfigError(f"model is {model!r:.60}, {wanted}")
    name, path = str(model), Path(model)
    if path.suffix == ".toml" and path.is_file():
        return _of_settings(path)
    if path.exists():
        return _of(name, load(path, "meta").model)
    if name in presets():
        return _of(name, build(name, device="meta"))
    hint = did_you_mean(name, presets(), "`glassformer models` lists the presets")
    raise ConfigError(f"there is no preset, folder or file {name!r}; {hint}")


def _of(name: str, model: Model) -> PlannedModel:
    return PlannedModel(name, model, objective_of(model))


def _of_settings(path: Path) -> PlannedModel:
    """The model that a file of settings trains, with the sizes of its batches."""
    resolved = resolve(file=path)
    settings, task = resolved.settings, TASKS[resolved.task]
    config, data = settings.model, vars(settings.data)
    if task.reads_text and "vocab" in vars(config):  # the size of a tokenizer that is not trained yet
        config = replace(config, vocab=settings.tokenizer.vocab_size)
    usual: dict[str, int | str] = {"optimizer": settings.recipe.optimizer}
    for key, names in (("batch", BATCH), ("length", LENGTH)):
        if found := [data[name] for name in names if isinstance(data.get(name), int)]:
            usual[key] = found[0]
    if "batch" not in usual and "tokens_per_batch" in data and "length" in usual:
        usual["batch"] = max(data["tokens_per_batch"] // int(usual["length"]), 1)
    return PlannedModel(str(path), build(config, device="meta"), task.objective, usual)
