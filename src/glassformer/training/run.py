"""A whole run: from settings to a trained model in a folder."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from glassformer.checkpoints.load import load
from glassformer.checkpoints.native import native_config
from glassformer.checkpoints.run_checkpoints import AVERAGE, MODEL_CONFIG
from glassformer.checkpoints.save import model_files, save
from glassformer.decoding.generate import generate
from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.build import build
from glassformer.text.tokenizer import Tokenizer, has_tokenizer
from glassformer.training.config import PYTHON, Resolved, resolve, to_toml
from glassformer.training.device import choose_device
from glassformer.training.distributed import expected, process_group
from glassformer.training.ema import average_checkpoints
from glassformer.training.initialization import initialize
from glassformer.training.loop import train
from glassformer.training.registry import TASKS, prepare_data
from glassformer.training.resume import (
    CONFIG,
    fitted,
    fixed_settings,
    read_labels,
    require_real_files,
    resolve_resumed,
    run_files,
)
from glassformer.training.run_folder import RunFolder
from glassformer.training.schema import as_toml, toml_value
from glassformer.training.settings import Settings
from glassformer.training.snapshots import TEST, newest
from glassformer.training.step import Log
from glassformer.training.task import DataContext, Metrics, Report, TaskData


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
        save(self.model, folder.path, self.tokenizer, self.labels)


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
        _require_no_initialization(resolved)
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


def _require_no_initialization(resolved: Resolved) -> None:
    chosen = resolved.settings.recipe.initialization
    if chosen != "default":
        raise ConfigError(f"recipe.initialization is {chosen}, but run.init brings its weights; leave one of them out")


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
        raise ConfigError(
            f"the tokenizer has {tokens} tokens and the model of run.init {rows}: they do not belong together"
        )
    model = build(config, settings.recipe.seed, "cpu")
    weights, known = model.state_dict(), start.state_dict()
    if data.fresh is not None:
        known = {name: value for name, value in known.items() if not name.startswith(data.fresh)}
    same = {name: known[name] for name, value in weights.items() if name in known and known[name].shape == value.shape}
    model.load_state_dict(weights | same)
    if new := sorted(weights.keys() - same.keys()):
        report(f"fresh weights, which the model to start from does not give: {', '.join(new)}")
    return model
