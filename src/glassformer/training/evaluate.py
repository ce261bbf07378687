"""`gf.evaluate`: a model in a folder in, the metrics of its task on held-out data out."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from torch import nn

from glassformer.checkpoints.load import Loaded, load
from glassformer.decoding.generate import generate
from glassformer.errors import ConfigError, PathError, TokenizerError
from glassformer.layers.model import Model
from glassformer.models.dalle import DALLE
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.config import Resolved, resolve
from glassformer.training.device import choose_device
from glassformer.training.distributed import ProcessGroup
from glassformer.training.recorded_run import CONFIG
from glassformer.training.registry import TASKS, defaults, files_of, prepare_data, tasks_for
from glassformer.training.settings import DataSettings, Settings
from glassformer.training.task import (
    DataContext,
    EvaluatedModel,
    EvaluationSet,
    Metrics,
    Progress,
    Record,
    Report,
    silent,
)

SPARE_ROWS = 512  # by which a model's vocabulary may be rounded up, to a multiple of eight


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
    num_beams: int | None = None,
    progress: Progress = silent,
    step: int | None = None,
    device: str = "auto",
    record: Record | None = None,
) -> Metrics:
    """Evaluate a model on data; without data, on the held-out part of the data of its run.

    That is the run's test data, or else its validation data, split off as the run did; a model that no run has made is
    evaluated on the built-in data of its task. Translations use the beams of the run unless `num_beams` gives others.
    The model is a folder, or what `gf.load` returns. `step` chooses a checkpoint, and `record` gets each example.
    """
    if isinstance(model, str | Path):
        evaluated = evaluated_model(str(model), load(model, choose_device(device, "float32", "no").device, step=step))
    elif isinstance(model, nn.Module) or not hasattr(model, "tokenizer"):
        what = f"model is of the type {type(model).__name__}, wanted a folder or what gf.load returns"
        raise ConfigError(f"{what}: evaluation needs the tokenizer too")
    elif step is not None:
        raise ConfigError(f"step is {step}, and the model is loaded already: give step to gf.load, or name the folder")
    else:
        evaluated = evaluated_model(model.name, model)
    require_own_tokenizer(evaluated)
    return evaluate_model(evaluated, data, target_path, num_beams, progress, record)


def evaluated_model(
    path: str, loaded: Loaded | ModelWithTokenizer, wanted: str | None = None, batch_size: int | None = None
) -> EvaluatedModel:
    """A model with its tokenizer and its task; `wanted` is the task it has to be."""
    if wanted not in (None, *TASKS):
        raise ConfigError(f"task is {wanted}, wanted one of {', '.join(TASKS)}")
    model, tokenizer = loaded.model, loaded.tokenizer
    fitting = tasks_for(model)
    if not fitting:
        what = f"{type(model).__name__} of this kind"
        raise ConfigError(f"{path}: {what} is not trained by any task, so it has no metrics")
    run = _run(path)
    task = fitting[0] if run is None or run.task not in fitting else run.task
    task = wanted if wanted in fitting else task
    if wanted not in (None, task):
        raise ConfigError(f"{path}: is for {task}, and the task asked for is {wanted}")
    found = EvaluatedModel(path, task, model, tokenizer, loaded.labels, batch_size)
    if TASKS[task].reads_text:
        found.required_tokenizer()
    return found


def require_own_tokenizer(evaluated: EvaluatedModel) -> None:
    """Refuse the tokenizer of another model; the embeddings of public models often have a few spare rows, for speed."""
    if evaluated.tokenizer is None:
        return
    rows, tokens = evaluated.model.config.vocab, evaluated.tokenizer.vocab_size
    if isinstance(evaluated.model, DALLE):
        rows = evaluated.model.config.text_vocab
    if rows != tokens and not (0 < rows - tokens < SPARE_ROWS and rows % 8 == 0):
        what = f"the tokenizer has {tokens:,} tokens and the model {rows:,}, wanted the same"
        raise TokenizerError(f"{evaluated.path}: {what}")


def evaluate_model(
    evaluated: EvaluatedModel,
    data: str | None = None,
    target_path: str | None = None,
    num_beams: int | None = None,
    progress: Progress = silent,
    record: Record | None = None,
    report: Report = lambda text: None,
) -> Metrics:
    """The metrics of a model on data, or on the held-out part of the data of its run.

    `report` gets hints about the data, and what of it cannot be read.
    """
    evaluated = replace(evaluated, report=report)
    run, task = _run(evaluated.path), TASKS[evaluated.task]
    own = data is None and run is not None and run.task == evaluated.task
    settings = defaults(evaluated.task) if run is None or run.task != evaluated.task else run.settings
    if data == task.built_in:
        settings = _built_in_settings(evaluated, settings)
    options = {"target_path": target_path, "num_beams": num_beams}
    given = {name: value for name, value in options.items() if value is not None}
    if other := [name for name in given if name not in vars(settings.data)]:
        why = f"{evaluated.path} is for {evaluated.task}, which has no such option"
        raise ConfigError(f"{other[0]} is given, and {why}")
    if target_path is not None and data is None:
        raise ConfigError("target_path is given without data, wanted both sides of the pairs")
    if own:
        examples = _held_out(evaluated, replace(settings, data=replace(settings.data, **given)))
    else:
        sides = {"target_path": ""} if "target_path" in vars(settings.data) else {}
        chosen = replace(settings.data, path=data or task.built_in, **{**sides, **given})
        examples = task.evaluation_set(evaluated, replace(settings, data=chosen))
    for hint in examples.hints():
        report(hint)
    return examples.evaluate(evaluated.model, generate, progress, record)


def data_of(evaluated: EvaluatedModel) -> tuple[str, str]:
    """The data that a model is evaluated on unless another is given: its path, and what it is in words."""
    run = _run(evaluated.path)
    if run is None or run.task != evaluated.task:
        built_in = TASKS[evaluated.task].built_in
        return built_in, f"the held-out part of {built_in}"
    data = run.settings.data
    named = data.test or data.validation
    return named or data.path, named or f"the held-out part of {data.path}"


def recorded_task(path: str) -> str | None:
    """The task that the model in a folder was trained for, or None where no run made it."""
    run = _run(path)
    return None if run is None else run.task


def _run(path: str) -> Resolved | None:
    """The settings of the run that a model comes from, if it does."""
    config = Path(path) / CONFIG
    return resolve(file=config) if config.is_file() else None


def _held_out(evaluated: EvaluatedModel, settings: Settings) -> EvaluationSet:
    """What the run of a model evaluates at its end: its test data, or else its validation data."""
    task, size = TASKS[evaluated.task], evaluated.batch_size
    for key, value in files_of(settings).items():
        if key.startswith("data.") and value not in ("", task.built_in) and not os.path.exists(value):
            why = f"{key} is {value}, and there is no such file or folder any more"
            raise PathError(f"{evaluated.path}: {why}: name other data to evaluate it on")
    if size is not None:
        settings = replace(settings, data=_with_batch_size(settings.data, size))
    context = DataContext(
        evaluated.tokenizer, ProcessGroup(), evaluated.report, evaluated.labels, evaluated.model.config,
        evaluated.model, load_model=lambda path: load(path).model,
    )  # fmt: skip
    found = prepare_data(settings, context).test
    return replace(found, batch_size=size) if "batch_size" in vars(found) else found


def _with_batch_size(data: DataSettings, size: int) -> DataSettings:
    """Data settings with so many examples in a batch; pairs are batched by tokens."""
    if "batch_size" in vars(data):
        return replace(data, **{"batch_size": size})
    if "pairs_per_batch" in vars(data):
        return replace(data, **{"pairs_per_batch": size})
    return replace(data, **{"tokens_per_batch": size * vars(data)["max_length"]})


def _built_in_settings(evaluated: EvaluatedModel, settings: Settings) -> Settings:
    """The settings that say which built-in data a model was not trained on: those of its run, or the defaults."""
    task, data = TASKS[evaluated.task], settings.data
    if data.path != task.built_in:
        return defaults(evaluated.task)
    if data.validation and not task.always_split:
        why = f"was trained on all of {task.built_in} (its data.validation is {data.validation})"
        raise ConfigError(f"{evaluated.path}: {why}, so name other data to evaluate it on")
    return settings
