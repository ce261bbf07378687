"""`gf.evaluate`: a model in a folder and data in, the metrics of its task out."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from torch import nn

from glassformer.checkpoints.load import load
from glassformer.decoding.generate import generate
from glassformer.errors import ConfigError, PathError, TokenizerError
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.config import CONFIG, Resolved, resolve
from glassformer.training.device import choose_device
from glassformer.training.registry import TASKS, defaults, tasks_for
from glassformer.training.settings import Settings
from glassformer.training.task import EvaluatedModel, Metrics, Progress, silent

SPARE_ROWS = 512  # by which a model's vocabulary may be rounded up, to a multiple of eight
OPTIONS: dict[str, object] = {"target_path": "", "num_beams": 1}  # of tasks whose data settings have them


class ModelWithTokenizer(Protocol):
    """A model with its tokenizer, as `gf.load` returns it; `name` is the folder it comes from."""

    @property
    def name(self) -> str:
        """The folder it comes from."""
        ...

    @property
    def model(self) -> Model:
        """The model itself."""
        ...

    tokenizer: Tokenizer | None
    labels: tuple[str, ...] | None


def evaluate(
    model: Path | str | ModelWithTokenizer,
    data: str | None = None,
    target_path: str | None = None,
    num_beams: int = 1,
    progress: Progress = silent,
    step: int | None = None,
) -> Metrics:
    """Evaluate a model on data; without data, on the part of the built-in data it was not trained on.

    The model is a folder, or what `gf.load` returns. `step` chooses a checkpoint of a run.
    """
    if isinstance(model, str | Path):
        evaluated = load_for_evaluation(str(model), step=step)
    elif isinstance(model, nn.Module) or not hasattr(model, "tokenizer"):
        what = f"model is of the type {type(model).__name__}, wanted a folder or what gf.load returns"
        raise ConfigError(f"{what}: evaluation needs the tokenizer too")
    elif step is not None:
        raise ConfigError(f"step is {step}, and the model is loaded already: give step to gf.load, or name the folder")
    else:
        evaluated = for_evaluation(model)
    return evaluate_model(evaluated, data, target_path, num_beams, progress)


def load_for_evaluation(path: str, wanted: str | None = None, step: int | None = None) -> EvaluatedModel:
    """Load a model with its tokenizer, and find its task; `wanted` is the task it has to be."""
    if wanted not in (None, *TASKS):
        raise ConfigError(f"task is {wanted}, wanted one of {', '.join(TASKS)}")
    loaded = load(path, step=step)
    evaluated = _described(path, loaded.model, loaded.tokenizer, loaded.labels, wanted)
    evaluated.model.to(choose_device("auto", "fp32", "no").device)
    return evaluated


def for_evaluation(loaded: ModelWithTokenizer) -> EvaluatedModel:
    """A model that is loaded already, evaluated on the device it is on."""
    return _described(loaded.name, loaded.model, loaded.tokenizer, loaded.labels)


def _described(
    path: str, model: Model, tokenizer: Tokenizer | None, labels: tuple[str, ...] | None, wanted: str | None = None
) -> EvaluatedModel:
    """A model with its task, if it has a tokenizer that fits."""
    fitting = tasks_for(model)
    if not fitting:
        what = f"{type(model).__name__} of this kind"
        raise ConfigError(f"{path}: {what} is not trained by any task, so it has no metrics")
    run = _run(path)
    task = fitting[0] if run is None or run.task not in fitting else run.task
    if wanted not in (None, task):
        raise ConfigError(f"{path}: is for {task}, and the task asked for is {wanted}")
    if tokenizer is None:
        raise PathError(f"{path}: has no tokenizer, so it cannot read text")
    _require_own_tokenizer(path, model.config.vocab, tokenizer.vocab_size)
    return EvaluatedModel(path, task, model, tokenizer, labels)


def _require_own_tokenizer(path: str, rows: int, tokens: int) -> None:
    """Refuse the tokenizer of another model; the embeddings of public models often have a few spare rows, for speed."""
    if rows != tokens and not (0 < rows - tokens < SPARE_ROWS and rows % 8 == 0):
        raise TokenizerError(f"{path}: the tokenizer has {tokens:,} tokens and the model {rows:,}, wanted the same")


def evaluate_model(
    evaluated: EvaluatedModel,
    data: str | None = None,
    target_path: str | None = None,
    num_beams: int = 1,
    progress: Progress = silent,
) -> Metrics:
    """The metrics of a model on data, or on the built-in data of its task."""
    task = TASKS[evaluated.task]
    run = _run(evaluated.path)
    settings = defaults(evaluated.task) if run is None else run.settings
    if data in (None, task.built_in):
        settings = _built_in_settings(evaluated, settings)
    options = {"target_path": target_path or "", "num_beams": num_beams}
    known = {name: value for name, value in options.items() if name in vars(settings.data)}
    if other := [name for name, value in options.items() if name not in known and value != OPTIONS[name]]:
        raise ConfigError(
            f"{other[0]} is given, and {evaluated.path} is for {evaluated.task}, which has no such option"
        )
    chosen = replace(settings.data, path=data or task.built_in, **known)
    return task.evaluation_set(evaluated, replace(settings, data=chosen)).evaluate(evaluated.model, generate, progress)


def _run(path: str) -> Resolved | None:
    """The settings of the run that a model comes from, if it does."""
    config = Path(path) / CONFIG
    return resolve(file=config) if config.is_file() else None


def _built_in_settings(evaluated: EvaluatedModel, settings: Settings) -> Settings:
    """The settings that say which built-in data a model was not trained on: those of its run, or the defaults."""
    task, data = TASKS[evaluated.task], settings.data
    if data.path != task.built_in:
        return defaults(evaluated.task)
    if data.validation and not task.always_split:
        why = f"was trained on all of {task.built_in} (its data.validation is {data.validation})"
        raise ConfigError(f"{evaluated.path}: {why}, so name other data to evaluate it on")
    return settings
