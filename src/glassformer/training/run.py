"""A whole run: from settings to a trained model in a folder."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import msgspec

from glassformer.checkpoints.load import load
from glassformer.checkpoints.native import native_config
from glassformer.checkpoints.run_checkpoints import AVERAGE, MODEL_CONFIG
from glassformer.checkpoints.save import model_files, save
from glassformer.decoding.generate import generate
from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.registry import architecture_of, build
from glassformer.safe_read import read_table
from glassformer.text.tokenizer import Tokenizer, has_tokenizer
from glassformer.training.config import (
    COMMAND_LINE,
    CONFIG,
    DEFAULT,
    PYTHON,
    Resolved,
    differing_keys,
    resolve,
    to_toml,
)
from glassformer.training.device import choose_device
from glassformer.training.distributed import expected, process_group
from glassformer.training.loop import train
from glassformer.training.optimizer import average_checkpoints, initialize
from glassformer.training.registry import TASKS, defaults, families, files_of, prepare_data, values_of
from glassformer.training.run_folder import RunFolder
from glassformer.training.schema import as_toml, shown, toml_value
from glassformer.training.settings import Settings
from glassformer.training.snapshots import TEST, newest
from glassformer.training.step import Log
from glassformer.training.task import DataContext, Metrics, Report, TaskData

MAY_DIFFER = ("run.device", "run.precision", "run.compile")  # when a run is resumed
DROPOUT = ("model.dropout", "model.attention_dropout")  # of training, not of a model's shape
OF_THE_START = "run.init"
NOT_USED = "not used, the tokenizer is that of run.init"


class Run:
    """A run with its data, tokenizer and model; `train` yields its log lines."""

    def __init__(self, resolved: Resolved, data: TaskData, model: Model, out: Path | None) -> None:
        self.resolved, self.settings, self.data, self.model = resolved, resolved.settings, data, model
        self.objective, self.tokenizer, self.labels = TASKS[resolved.task].objective, data.tokenizer, data.labels
        recipe, run = self.settings.recipe, self.settings.run
        self.device = choose_device(run.device, run.precision, run.compile)
        keep = max(run.keep_checkpoints, recipe.average_checkpoints)
        every = recipe.save_every if recipe.average_checkpoints > 1 else 1
        self.folder = None if out is None else RunFolder(out, keep, every=every)
        if self.folder is not None:
            self.folder.begun = {**fixed_settings(self.settings), TEST: data.test.batches.identity()}

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return self.model.parameter_count()

    @cached_property
    def tokens_per_step(self) -> int:
        """Positions that one step computes on, with padding, in a batch such as the first."""
        batch = next(self.data.batches.once())
        positions = max(batch[name].numel() for name in self.objective.inputs)
        return positions * self.settings.recipe.gradient_accumulation * self.data.batches.world

    @property
    def memory(self) -> int:
        """Bytes of weights, gradients and the optimizer's state, without activations."""
        return self._weights * (self.settings.recipe.copies + 1)

    @property
    def bytes_per_checkpoint(self) -> int:
        """Bytes of one checkpoint, which holds everything but the gradients."""
        return self.memory - self._weights

    @property
    def _weights(self) -> int:
        return sum(weight.numel() * weight.element_size() for weight in self.model.parameters())

    def train(self, resume: bool = False) -> Iterator[Log]:
        """Train to the end, from the start or from the newest checkpoint; then write the model into the folder."""
        data, run = self.data, self.settings.run
        with process_group(run.strategy, self.device) as group, self._opened(resume, group.first):
            parts = (data.batches, self.objective, self.settings.recipe, self.folder, data.validation, self.device)
            yield from train(self.model, *parts, group)
            if group.first and self.folder is not None:
                self._finish(self.folder)
            group.wait()

    @contextmanager
    def _opened(self, resume: bool, first: bool) -> Iterator[None]:
        """The folder, locked, with the settings, tokenizer and model configuration in it."""
        if self.folder is None or not first:
            yield
            return
        with self.folder.lock():
            if not resume:  # a resumed run keeps the settings it was begun with
                require_free(self.folder.path)
                self.folder.write_text(CONFIG, to_toml(self.resolved, origins=True))
            labels = None if self.labels is None else tuple(self.labels)
            self.folder.write_text(MODEL_CONFIG, json.dumps(native_config(self.model.config, labels), indent=2) + "\n")
            self.tokenizer.save(self.folder.path)
            yield

    def evaluate(self) -> Metrics:
        """The metrics on the test data, or on the validation data where there is none."""
        return self.data.test.evaluate(self.model.eval(), generate)

    def _finish(self, folder: RunFolder) -> None:
        """Write the best weights, or the mean of the last checkpoints, as a model to load."""
        recipe = self.settings.recipe
        if recipe.average_checkpoints > 1:
            weights = average_checkpoints(folder, recipe.average_checkpoints)
        else:
            best = folder.best_or_newest()
            average = {name.removeprefix(AVERAGE): v for name, v in best.optimizer.items() if name.startswith(AVERAGE)}
            weights = best.model | average
        self.model = build(self.model.config, device="cpu").to(self.device.device)  # the trained one may be sharded
        self.model.load_state_dict(weights)
        save(self.model, folder.path, self.tokenizer, self.labels, in_run=True)


def train_task(
    task: str | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    out: Path | str | None = None,
    preset: str | None = None,
    config: Path | str | None = None,
    resume: bool = False,
    watch: Callable[[Log], None] = lambda log: None,
) -> Run:
    """Train a model as `glassformer train` does: a task, settings by key, and a folder for the run.

    Settings are those that `glassformer config TASK` lists, such as {"recipe.steps": 500}.
    """
    if out == "":
        raise ConfigError("out is an empty path, wanted a folder")
    words = [f"{key}={_in_toml(key, value)}" for key, value in (settings or {}).items()]
    folder = None if out is None else Path(out)
    if not resume:
        resolved = resolve(task, preset, config, words, PYTHON)
    elif folder is None:
        raise ConfigError("resume continues the run of a folder: say which by out")
    else:
        resolved = resolve_resumed(folder, task, preset, config, words, _silent, PYTHON)
    run = prepare(resolved, folder, _silent, resume)
    for log in run.train(resume):
        watch(log)
    return run


def _in_toml(key: str, value: object) -> str:
    try:
        return toml_value(as_toml(value))
    except TypeError:
        kinds = "text, a number, true or false, a list or a table"
        raise ConfigError(f"{key} is of the type {type(value).__name__}, wanted {kinds}") from None


def _silent(text: str) -> None:
    """Report nothing."""


def prepare(resolved: Resolved, out: Path | None, report: Report, resume: bool = False, dry_run: bool = False) -> Run:
    """Read the data, train or load the tokenizer, and build the model or load the one to start from.

    A dry run has sizes but no weights, and cannot be trained.
    """
    require_real_files(resolved.settings)
    group = expected(resolved.settings.run.strategy)
    if out is not None and group.first and not resume:
        require_free(out)
    if out is None and not dry_run and resolved.settings.recipe.average_checkpoints > 1:
        raise ConfigError("recipe.average_checkpoints takes the mean of checkpoints: give a folder to keep them in")
    start, known, labels, init = None, None, None, resolved.settings.run.init
    vocab = _saved_vocab(out) if init and resume and out is not None else None
    if init and vocab is None:
        if (drawn := resolved.settings.recipe.initialization) != "default":
            other = "but run.init brings its weights; leave one of them out"
            raise ConfigError(f"recipe.initialization is {drawn}, {other}")
        start = load(init)
        resolved = fitted(resolved, start.model, start.tokenizer is not None)
        known, labels = start.tokenizer, start.labels
    if resume and out is not None and has_tokenizer(out):
        known, labels = Tokenizer.load(out), read_labels(out)
    settings = resolved.settings
    data = prepare_data(settings, DataContext(known, group, report, labels))
    config = replace(settings.model, **data.config_values)
    if start is None:
        config = replace(config, vocab=vocab or data.tokenizer.vocab_size)
        model = _fresh(config, settings, dry_run)
    else:
        model = _adopted(config, settings, data, start.model, report)
    return Run(resolved, data, model, out)


def require_free(folder: Path) -> None:
    """Refuse a folder with a run in it, or with a model that the new one would replace."""
    if run_files(folder):
        raise ConfigError(f"{folder} already holds a run: resume it, or choose another folder")
    if found := model_files(folder):
        raise ConfigError(f"{folder} already holds a model, in {', '.join(found)}: choose another folder")


def _saved_vocab(out: Path) -> int | None:
    """The vocabulary of the model in the newest checkpoint, which may have spare rows in its embedding."""
    saved = newest(RunFolder(out))
    return None if saved is None else len(saved.model["embedding.weight"])


def _fresh(config: Config, settings: Settings, dry_run: bool) -> Model:
    recipe = settings.recipe
    model = build(config, recipe.seed, "meta" if dry_run else "cpu")
    if recipe.initialization != "default" and not dry_run:
        initialize(model, recipe.initialization, recipe.seed)
    return model


def _adopted(config: Config, settings: Settings, data: TaskData, start: Model, report: Report) -> Model:
    """The model to start from; where its head is not the task's, its body under a fresh head."""
    tokens, rows = data.tokenizer.vocab_size, start.config.vocab
    if tokens > rows:
        sizes = f"the tokenizer has {tokens} tokens and the model of run.init {rows}"
        raise ConfigError(f"{sizes}: they do not belong together")
    model = build(config, settings.recipe.seed, "cpu")
    weights, known = model.state_dict(), start.state_dict()
    if data.fresh is not None:
        known = {name: value for name, value in known.items() if not name.startswith(data.fresh)}
    same = {name: known[name] for name, value in weights.items() if name in known and known[name].shape == value.shape}
    model.load_state_dict(weights | same)
    if new := sorted(weights.keys() - same.keys()):
        report(f"fresh weights, which the model to start from does not give: {', '.join(new)}")
    return model


def require_real_files(settings: Settings) -> None:
    """Refuse a pipe or a device among the files of a run: data is read more than once, and reading a pipe blocks."""
    for key, path in files_of(settings).items():
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise ConfigError(f"{key} is {shown(path)}, a pipe or a device: wanted a file or a folder")


def run_files(folder: Path) -> list[str]:
    """The settings and checkpoints of a run in a folder, by name."""
    return [path.name for pattern in (CONFIG, "step-*") for path in sorted(folder.glob(pattern))]


def read_labels(folder: Path) -> tuple[str, ...] | None:
    """The labels that the run of a classifier was begun with, or None for any other run."""
    if not (folder / MODEL_CONFIG).exists():
        return None
    try:
        return msgspec.convert(read_table(folder / MODEL_CONFIG).get("labels"), tuple[str, ...] | None)
    except (msgspec.ValidationError, CheckpointError) as error:
        raise ConfigError(f"{folder / MODEL_CONFIG}: does not hold the labels of this run: {error}") from None


def resolve_resumed(
    folder: Path,
    task: str | None,
    preset: str | None,
    file: Path | str | None,
    words: Sequence[str],
    report: Report,
    origin: str = COMMAND_LINE,
) -> Resolved:
    """The settings of a stopped run; only those may differ that affect nothing but rounding."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder} holds no run to resume: there is no {CONFIG} in it")
    saved = resolve(file=folder / CONFIG)
    alone = preset is None and file is None
    asked = resolve(task or saved.task, preset, folder / CONFIG if alone else file, words, origin)
    if asked.task != saved.task:
        raise ConfigError(f"{folder} holds a run of {saved.task}, not of {asked.task}")
    differing = differing_keys(saved, asked)
    if wrong := [key for key in differing if key not in MAY_DIFFER]:
        other = ", ".join(wrong)
        raise ConfigError(f"{folder} was begun with another {other}; resume it without, or begin another run")
    if differing:
        report(f"{', '.join(differing)} differ from before: the run goes on, but its numbers are rounded differently")
    values = values_of(asked.settings)
    changed = replace(saved.settings.run, **{key.removeprefix("run."): values[key] for key in differing})
    return replace(saved, settings=replace(saved.settings, run=changed))


def fixed_settings(settings: Settings) -> dict[str, str]:
    """The settings that must stay the same from the first step to the last, in the notation of TOML."""
    return {key: toml_value(as_toml(v)) for key, v in values_of(settings).items() if key not in MAY_DIFFER}


def fitted(resolved: Resolved, start: Model, has_tokenizer: bool) -> Resolved:
    """The settings with the configuration of the model to start from in place of theirs; only dropout may differ."""
    settings, origins = resolved.settings, dict(resolved.origins)
    if has_tokenizer:
        _require_no_tokenizer(resolved)
        origins |= {key: NOT_USED for key in origins if key.startswith("tokenizer.")}
    if architecture_of(start.config) not in families(resolved.task):
        raise ConfigError(f"run.init holds {type(start).__name__}, which this task does not train")
    found = replace(settings, model=replace(start.config, **TASKS[resolved.task].config_values))
    has, asked = _model_values(found), _model_values(settings)
    given = {key: value for key, value in asked.items() if origins[key] != DEFAULT}
    for key, value in given.items():
        if key not in has or (has[key] != value and key not in DROPOUT):
            theirs = shown(as_toml(has[key])) if key in has else "no such key"
            change = f"{key} is {shown(as_toml(value))}, but {settings.run.init} has {theirs}"
            raise ConfigError(f"{change}: a model that is started from keeps its shape")
    dropout = {key.removeprefix("model."): value for key, value in given.items() if key in DROPOUT}
    origins = {key: origin for key, origin in origins.items() if key not in asked}
    origins |= {key: resolved.origins[key] if key in given else OF_THE_START for key in has}
    return replace(resolved, settings=replace(found, model=replace(found.model, **dropout)), origins=origins)


def _require_no_tokenizer(resolved: Resolved) -> None:
    usual, init = values_of(defaults(resolved.task)), resolved.settings.run.init
    for key, value in values_of(resolved.settings).items():
        given = key.startswith("tokenizer.") and resolved.origins[key] != DEFAULT
        if given and value != usual[key]:
            why = f"the tokenizer comes with the model of run.init, {init}; leave one of them out"
            raise ConfigError(f"{key} is {shown(value)}, but {why}")


def _model_values(settings: Settings) -> dict[str, object]:
    return {key: value for key, value in values_of(settings).items() if key.startswith("model.")}
