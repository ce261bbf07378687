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
from glassformer.checkpoints.save import save
from glassformer.data.batches import LabelledBatches, MaskedBatches, PackedBatches, PairBatches
from glassformer.errors import ConfigError
from glassformer.layers.model import Model
from glassformer.models.build import build
from glassformer.models.encoder import EncoderConfig
from glassformer.text.tokenizer import Tokenizer, has_tokenizer
from glassformer.training.config import PYTHON, Resolved, resolve, to_toml
from glassformer.training.device import choose_device
from glassformer.training.distributed import expected, process_group
from glassformer.training.ema import average_checkpoints
from glassformer.training.evaluate import Metrics, evaluate_pairs
from glassformer.training.initialization import initialize
from glassformer.training.loop import train
from glassformer.training.metrics import (
    evaluate_classifier,
    evaluate_language,
    evaluate_masked,
)
from glassformer.training.resume import (
    CONFIG,
    fitted,
    fixed_settings,
    read_labels,
    require_free,
    require_real_files,
    resolve_resumed,
)
from glassformer.training.run_folder import RunFolder
from glassformer.training.schema import as_toml, toml_value
from glassformer.training.settings import PairData, Settings
from glassformer.training.snapshots import TEST, newest
from glassformer.training.step import Log
from glassformer.training.tasks import DataContext, Say, TaskData, prepare_data

CLASS_HEAD = "classifier."  # parameters of an encoder that belong to its classes


class Run:
    """Data read, tokenizer and model ready: `train` goes through it, a log line at a time."""

    def __init__(self, resolved: Resolved, material: TaskData, model: Model, out: Path | None) -> None:
        self.resolved, self.settings, self.data, self.model = resolved, resolved.settings, material, model
        self.tokenizer, self.labels = material.tokenizer, material.labels
        asked = self.settings.run
        self.hardware = choose_device(asked.device, asked.precision, asked.compile)
        recipe = self.settings.recipe
        keep, every = (
            max(asked.keep_checkpoints, recipe.average_checkpoints),
            recipe.save_every if recipe.average_checkpoints > 1 else 1,
        )
        self.folder = None if out is None else RunFolder(out, keep, every=every)
        if self.folder is not None:
            self.folder.begun = {**fixed_settings(self.settings), TEST: material.test.identity()}

    @property
    def parameters(self) -> int:
        """Numbers that training changes."""
        return self.model.parameter_count()

    @cached_property
    def tokens_per_step(self) -> int:
        """Positions that one step computes on, padding among them, in a batch such as the first."""
        batch = next(self.data.batches.once())
        positions = max(batch[name].numel() for name in self.data.objective.inputs)
        return positions * self.settings.recipe.gradient_accumulation * self.data.batches.world

    @property
    def memory(self) -> int:
        """Bytes of weights, gradients and what the optimizer remembers; activations come on top."""
        return self._weights * (self.settings.recipe.copies + 1)

    @property
    def bytes_per_checkpoint(self) -> int:
        """Bytes of one checkpoint, which holds all but the gradients."""
        return self.memory - self._weights

    @property
    def _weights(self) -> int:
        return sum(weight.numel() * weight.element_size() for weight in self.model.parameters())

    def train(self, resume: bool = False) -> Iterator[Log]:
        """Train to the end, or on from where a stopped run was saved; then write the model into the folder."""
        made, recipe = self.data, self.settings.recipe
        with (
            process_group(self.settings.run.strategy, self.hardware) as processes,
            self._opened(resume, processes.first),
        ):
            parts = (made.batches, made.objective, recipe, self.folder, made.validation, self.hardware, processes)
            yield from train(self.model, *parts)
            if processes.first and self.folder is not None:
                self._finish(self.folder)
            processes.wait()

    @contextmanager
    def _opened(self, resume: bool, first: bool) -> Iterator[None]:
        """The folder locked, with the settings in it, and the tokenizer and configuration that `load` needs."""
        if self.folder is None or not first:
            yield
            return
        with self.folder.lock():
            if not resume:  # a run that is resumed keeps the settings it was begun with
                require_free(self.folder.path)
                self.folder.write_text(CONFIG, to_toml(self.resolved, origins=True))
            labels = None if self.labels is None else tuple(self.labels)
            self.folder.write_text(MODEL_CONFIG, json.dumps(native_config(self.model.config, labels), indent=2) + "\n")
            self.tokenizer.save(self.folder.path)
            yield

    def evaluate(self) -> Metrics:
        """Figures on the test data, or on the validation data where there is none."""
        test, model, data = self.data.test, self.model.eval(), self.settings.data
        match test:
            case PairBatches() if isinstance(data, PairData):
                return evaluate_pairs(model, self.tokenizer, test, self.data.pairs, data.num_beams)
            case MaskedBatches():
                return evaluate_masked(model, test)
            case PackedBatches():
                return evaluate_language(model, test, self.data.test_bytes())
            case LabelledBatches():
                return evaluate_classifier(model, test, self.labels or ())
        raise ConfigError(f"no figures are known for {type(test).__name__}")

    def _finish(self, folder: RunFolder) -> None:
        """Take the weights that did best, or the mean of the last checkpoints, and write them as a model to load."""
        recipe = self.settings.recipe
        if recipe.average_checkpoints > 1:
            weights = average_checkpoints(folder, recipe.average_checkpoints)
        else:
            best = folder.best_or_newest()
            average = {name.removeprefix(AVERAGE): v for name, v in best.optimizer.items() if name.startswith(AVERAGE)}
            weights = best.model | average
        self.model = build(self.model.config, device="cpu").to(
            self.hardware.device
        )  # not the trained one, which may be in shards
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
    """Train a model as `glassformer train` does: the task, settings by key, and a folder to keep the run in.

    Settings are those that `glassformer config TASK` lists, such as {"recipe.steps": 500}.
    """
    if out == "":
        raise ConfigError("out is an empty path, wanted a folder")
    words = [f"{key}={_in_toml(key, value)}" for key, value in (settings or {}).items()]
    folder = None if out is None else Path(out)
    if not resume:
        resolved = resolve(task, preset, config, words, PYTHON)
    elif folder is None:
        raise ConfigError("to resume is to go on with the run of a folder: say which by out")
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
    """Say nothing of it."""


def prepare(resolved: Resolved, out: Path | None, say: Say, resume: bool = False, sketch: bool = False) -> Run:
    """Read the data, learn or load the tokenizer, build the model or load the one to start from.

    A sketch has sizes but no weights, and cannot be trained.
    """
    require_real_files(resolved.settings)
    processes = expected(resolved.settings.run.strategy)
    if out is not None and processes.first and not resume:
        require_free(out)
    if out is None and not sketch and resolved.settings.recipe.average_checkpoints > 1:
        raise ConfigError("recipe.average_checkpoints takes the mean of checkpoints: give a folder to keep them in")
    start, known, labels, init = None, None, None, resolved.settings.run.init
    rows = _saved_rows(out) if init and resume and out is not None else None
    if init and rows is None:
        _require_no_initialization(resolved)
        start = load(init)
        known, labels, resolved = start.tokenizer, start.labels, fitted(resolved, start)
    if resume and out is not None and has_tokenizer(out):
        known, labels = Tokenizer.load(out), read_labels(out)
    settings = resolved.settings
    material = prepare_data(settings, DataContext(known, processes, say, labels))
    if start is None:
        model = _fresh(settings, material, rows or material.tokenizer.vocab_size, sketch)
    else:
        model = _adopted(settings, material, start.model, say)
    return Run(resolved, material, model, out)


def _require_no_initialization(resolved: Resolved) -> None:
    chosen = resolved.settings.recipe.initialization
    if chosen != "default":
        raise ConfigError(f"recipe.initialization is {chosen}, but run.init brings its weights; leave one of them out")


def _saved_rows(out: Path) -> int | None:
    """The vocabulary of the model in the newest checkpoint, which may have more rows than there are tokens."""
    saved = newest(RunFolder(out))
    return None if saved is None else len(saved.model["embedding.weight"])


def _fresh(settings: Settings, material: TaskData, vocab: int, sketch: bool) -> Model:
    config = replace(settings.model, vocab=vocab)
    if isinstance(config, EncoderConfig) and material.labels is not None:
        config = replace(config, classes=len(material.labels))
    recipe = settings.recipe
    model = build(config, recipe.seed, "meta" if sketch else "cpu")
    if recipe.initialization != "default" and not sketch:
        initialize(model, recipe.initialization, recipe.seed)
    return model


def _adopted(settings: Settings, material: TaskData, start: Model, say: Say) -> Model:
    """The model to start from; where its head is another than the task's, the rest of it under a fresh head."""
    tokens, rows = material.tokenizer.vocab_size, settings.model.vocab
    if tokens > rows:
        raise ConfigError(
            f"the tokenizer has {tokens} tokens and the model of run.init {rows}: they do not belong together"
        )
    config = settings.model
    if isinstance(config, EncoderConfig) and material.labels is not None:
        config = replace(config, classes=len(material.labels))
    model = build(config, settings.recipe.seed, "cpu")
    weights, known = model.state_dict(), start.state_dict()
    if material.fresh_head:
        known = {name: value for name, value in known.items() if not name.startswith(CLASS_HEAD)}
    same = {name: known[name] for name, value in weights.items() if name in known and known[name].shape == value.shape}
    model.load_state_dict(weights | same)
    if new := sorted(weights.keys() - same.keys()):
        say(f"fresh weights, which the model to start from does not give: {', '.join(new)}")
    return model
