"""A whole run: from settings to a trained model in a folder."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from glassformer.checkpoints.load import load
from glassformer.checkpoints.native import native_config
from glassformer.checkpoints.run_checkpoints import AVERAGE, FINISHED, LORA_ALPHA, MODEL_CONFIG
from glassformer.decoding.generate import generate
from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.lora import add_lora_like, merge_layers
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.training.begun import resumed_context
from glassformer.training.config import (
    COMMAND_LINE,
    PYTHON,
    Resolved,
    differing_keys,
    resolve,
    resolve_for_machine,
    to_toml,
    with_initial_model,
)
from glassformer.training.device import run_device
from glassformer.training.distributed import ProcessGroup, expected, process_group
from glassformer.training.estimate import Estimate, estimate
from glassformer.training.fine_tune import adopted, prepare_fine_tuning, require_start, save_fine_tuned
from glassformer.training.first_stage import train_first_stage
from glassformer.training.fitting import explained_shortage, fitting_of
from glassformer.training.initial_vectors import start_from_vectors
from glassformer.training.loop import train
from glassformer.training.objective import Objective
from glassformer.training.optimizer import average_checkpoints, initialize, trainable
from glassformer.training.recomputed import require_blocks
from glassformer.training.recorded_run import CONFIG
from glassformer.training.registry import TASKS, prepare_data, values_of
from glassformer.training.run_files import require_free, require_real_files
from glassformer.training.run_folder import RunFolder
from glassformer.training.samples import Sample, sample_tokens
from glassformer.training.schema import as_toml, toml_value
from glassformer.training.settings import Settings
from glassformer.training.snapshots import STEPS, TEST, newest
from glassformer.training.step import Log
from glassformer.training.task import DataContext, Metrics, Report, TaskData
from glassformer.training.threads import fastest_threads, using_threads

PACKING = "data.packing"
MAY_DIFFER = ("run.device", "run.precision", "run.compile", "run.activation_checkpointing")  # when a run is resumed


class Run:
    """A run with its data, tokenizer and model; `train` yields its log lines, and `logs` keeps them."""

    _repr_html_: ClassVar[Callable[["Run"], str]]  # how a notebook shows a run; `views.run_frame` sets it

    def __init__(
        self, resolved: Resolved, data: TaskData, model: Model, out: Path | None, threads: int | None = None
    ) -> None:
        self.resolved, self.settings, self.data, self.model = resolved, resolved.settings, data, model
        self.tokenizer, self.labels = data.tokenizer, data.labels
        recipe, run = self.settings.recipe, self.settings.run
        self.device = run_device(run)
        if run.activation_checkpointing:
            require_blocks(model)
        sample = data.sample or Sample(data, sample_tokens(recipe, self.device))
        self.objective = replace(objective_of(resolved.task, data), sample=sample)
        keep = max(run.keep_checkpoints, recipe.average_checkpoints)
        every = recipe.save_every if recipe.average_checkpoints > 1 else 1
        self.folder = None if out is None else RunFolder(out, keep, every=every)
        self.logs: list[Log] = []  # of this call of `train`
        self.threads = threads  # to compute with on a CPU, if not as many as torch has
        if self.folder is not None:
            self.folder.begun = {**fixed_settings(self.settings), TEST: data.test.batches.identity()}

    def __repr__(self) -> str:
        parts = [f"{self.parameters:,} parameters"]
        if self.logs:
            last = self.logs[-1]
            validation = [log.validation for log in self.logs if log.validation is not None]
            parts += [f"step {last.step:,} of {self.settings.recipe.steps:,}", f"loss {last.loss:.4g}"]
            parts += [f"best validation {min(validation):.4g}"] if validation else []
        parts += [] if self.folder is None else [f"in {self.folder.path}"]
        return f"<Run {self.resolved.task}: {', '.join(parts)}>"

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return self.model.parameter_count()

    @cached_property
    def tokens_per_step(self) -> int:
        """Positions that one step computes on, with padding, in a batch such as the first."""
        batch = next(self.data.batches.once())
        positions = max(batch[name].numel() for name in self.objective.inputs)
        if self.objective.positions is not None:
            positions = self.objective.positions(self.model, batch)
        return positions * self.settings.recipe.gradient_accumulation * self.data.batches.world

    @cached_property
    def estimate(self) -> Estimate:
        """The memory and the time that the run will take."""
        data, settings = self.data, self.settings
        parts = (data.batches, data.validation, settings.recipe, self.device, bool(settings.run.init))
        with using_threads(self.threads):
            return estimate(self.model, self.objective, *parts)

    @property
    def bytes_per_checkpoint(self) -> int:
        """Bytes of one checkpoint, which holds the weights and the optimizer's state of those that are trained."""
        weights = sum(p.numel() * p.element_size() for p in self.model.parameters())
        trained = sum(p.numel() * p.element_size() for p in trainable(self.model).values())
        return weights + (self.settings.recipe.copies - 1) * trained

    def train(self, resume: bool = False) -> Iterator[Log]:
        """Train to the end, from the start or from the newest checkpoint; then write the model into the folder."""
        data, run = self.data, self.settings.run
        fitting = fitting_of(self.settings, data, self.objective, self.model, resume)
        explained = explained_shortage(fitting, self.folder)
        group_of = process_group(run.strategy, self.device)
        with explained, using_threads(self.threads), group_of as group, self._opened(resume, group.first):
            parts = (data.batches, self.objective, self.settings.recipe, self.folder, data.validation, self.device)
            for log in train(self.model, *parts, group):
                self.logs.append(log)
                yield log
            if group.first and self.folder is not None:
                self._finish(self.folder)
            elif self.folder is None:
                merge_layers(self.model)
            group.wait()

    @contextmanager
    def _opened(self, resume: bool, first: bool) -> Iterator[None]:
        """The folder, locked, with the settings, tokenizer and model configuration in it."""
        if self.folder is None or not first:
            yield
            return
        with self.folder.lock():
            if not resume:
                require_free(self.folder.path)
            if not resume or self._grows(self.folder.path):  # a resumed run keeps the settings it was begun with
                self.folder.write_text(CONFIG, to_toml(self.resolved, origins=True))
            self._write_model_config(self.folder, finished=False)
            if self.tokenizer is not None:
                self.tokenizer.save(self.folder.path)
            yield

    def _write_model_config(self, folder: RunFolder, finished: bool) -> None:
        """Write what the model of the checkpoints is, and whether the model beside them is that of the run's end."""
        table = native_config(self.model.config, None if self.labels is None else tuple(self.labels))
        if self.settings.lora.rank:
            table[LORA_ALPHA] = self.settings.lora.alpha
        folder.write_text(MODEL_CONFIG, json.dumps(table | ({FINISHED: True} if finished else {}), indent=2) + "\n")

    def _grows(self, folder: Path) -> bool:
        """Whether the run has more steps than the settings in its folder."""
        begun = resolve(file=folder / CONFIG)
        return self.settings.recipe.steps > begun.settings.recipe.steps

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
        trained, self.model = self.model, build(self.model.config, device="cpu")  # the trained one may be sharded
        add_lora_like(self.model, trained)
        self.model.to(self.device.device).load_state_dict(weights)
        save_fine_tuned(self.model, folder.path, self.settings, self.tokenizer, self.labels)
        self._write_model_config(folder, finished=True)


def _silent(text: str) -> None:
    """Report nothing."""


def train_task(
    task: str | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    out: Path | str | None = None,
    preset: str | None = None,
    config: Path | str | None = None,
    resume: bool = False,
    size: str | None = None,
    watch: Callable[[Log], None] = lambda log: None,
) -> Run:
    """Train a model as `gf.train` does, showing nothing; `watch` gets each log line."""
    run = prepare_task(task, settings, out=out, preset=preset, config=config, resume=resume, size=size)
    for log in run.train(resume):
        watch(log)
    return run


def prepare_task(
    task: str | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    out: Path | str | None = None,
    preset: str | None = None,
    config: Path | str | None = None,
    resume: bool = False,
    size: str | None = None,
    report: Report = _silent,
) -> Run:
    """A run ready to be trained: a task, settings by key, and a folder.

    Settings are those that `glassformer config TASK` lists, such as {"recipe.steps": 500}; `size` is tiny, small or
    base, and follows from the machine and the data where it is not given.
    """
    for name, value, kinds in (("task", task, str), ("preset", preset, str), ("settings", settings, Mapping)):
        if value is not None and not isinstance(value, kinds):
            wanted = "a mapping of keys to values" if kinds is Mapping else "a name"
            raise ConfigError(f"{name} is of the type {type(value).__name__}, wanted {wanted}")
    if out == "":
        raise ConfigError("out is an empty path, wanted a folder")
    words = [f"{key}={_in_toml(key, value)}" for key, value in (settings or {}).items()]
    folder = None if out is None else Path(out)
    if not resume:
        resolved = resolve_for_machine(task, preset, config, words, PYTHON, size)
    elif folder is None:
        raise ConfigError("resume continues the run of a folder: say which by out")
    else:
        resolved = resolve_resumed(folder, task, preset, config, words, report, PYTHON)
    return prepare(resolved, folder, report, resume)


def _in_toml(key: str, value: object) -> str:
    try:
        return toml_value(as_toml(value))
    except TypeError:
        kinds = "text, a number, true or false, a list or a table"
        raise ConfigError(f"{key} is of the type {type(value).__name__}, wanted {kinds}") from None


def prepare(resolved: Resolved, out: Path | None, report: Report, resume: bool = False, dry_run: bool = False) -> Run:
    """Read the data, train or load the tokenizer, and build the model or load the one to start from.

    A dry run has sizes but no weights, and cannot be trained.
    """
    require_real_files(resolved.settings)
    require_start(resolved.settings, resume)
    require_buildable(resolved.settings, report)
    group = expected(resolved.settings.run.strategy)
    if out is not None and group.first and not resume:
        require_free(out)
    if out is None and not dry_run and resolved.settings.recipe.average_checkpoints > 1:
        raise ConfigError("recipe.average_checkpoints takes the mean of checkpoints: give a folder to keep them in")
    start, init, context = None, resolved.settings.run.init, _context(group, report, out, dry_run)
    has_weights = init and resume and out is not None and newest(RunFolder(out)) is not None
    if init and not has_weights:
        if (drawn := resolved.settings.recipe.initialization) != "default":
            other = "but run.init brings its weights; leave one of them out"
            raise ConfigError(f"recipe.initialization is {drawn}, {other}")
        start = load(init)
        resolved = with_initial_model(resolved, start.model, start.tokenizer is not None)
        known = {"known": start.tokenizer, "labels": start.labels, "config": start.model.config}
        context = replace(context, **known, model=start.model)  # pyright: ignore[reportArgumentType]
    if resume and out is not None:
        context = resumed_context(context, out)
    else:
        decided = TASKS[resolved.task].decided(resolved.settings, run_device(resolved.settings.run), report)
        resolved = replace(resolved, settings=decided)
    settings = resolved.settings
    data = prepare_data(settings, context)
    config = replace(settings.model, **data.config_values)
    new: Sequence[str] = ()
    if start is None:
        # The embedding of a resumed run may have spare rows.
        if data.tokenizer is not None and "vocab" not in data.config_values:
            vocab = data.tokenizer.vocab_size if context.config is None else vars(context.config)["vocab"]
            config = replace(config, vocab=vocab)
        require_model(config)
        if not dry_run:
            objective = objective_of(resolved.task, data)
            fitting_of(settings, data, objective, build(config, device="meta"), resume).require_room()
        model = _fresh(config, settings, data, dry_run)
        start_from_vectors(model, data.tokenizer, "" if resume or dry_run else settings.run.vectors, report)
    else:
        model, new = adopted(config, settings, data, start.model, report)
    lora = prepare_fine_tuning(model, settings, new, report)
    if start is not None and not dry_run:
        fitting_of(settings, data, objective_of(resolved.task, data), model, resume).require_room()
    threads = None if resume or dry_run or group.world_size > 1 else fastest_threads(run_device(settings.run), report)
    return Run(replace(resolved, settings=replace(settings, lora=lora)), data, model, out, threads)


def _context(group: ProcessGroup, report: Report, out: Path | None, dry_run: bool) -> DataContext:
    stages = {"train_first_stage": train_first_stage, "load_model": lambda path: load(path).model}
    return DataContext(None, group, report, folder=out, dry_run=dry_run, **stages)  # pyright: ignore[reportArgumentType]


def objective_of(task: str, data: TaskData) -> Objective:
    """The objective of a task, on batches that may be packed."""
    return replace(TASKS[task].objective, longest=data.batches.longest)


def _fresh(config: Config, settings: Settings, data: TaskData, dry_run: bool) -> Model:
    recipe = settings.recipe
    model = build(config, recipe.seed, "meta" if dry_run else "cpu")
    if recipe.initialization != "default" and not dry_run:
        initialize(model, recipe.initialization, recipe.seed)
    if not dry_run:
        model.load_state_dict(data.weights, strict=False)
    return model


def require_buildable(settings: Settings, report: Report) -> None:
    """Refuse a device that is not there and a model that cannot be built, before any data is read.

    A precision that the device does not have is reported.
    """
    run_device(settings.run, report)
    if not settings.run.init and "image_size" not in vars(settings.model):  # which follows from the data
        require_model(settings.model)


def require_model(config: Config) -> None:
    """Refuse a configuration that no model can be built from, with the keys of its settings."""
    try:
        build(config, device="meta")  # shapes only
    except ConfigError as error:
        said = str(error) if "head_dim" in vars(config) else str(error).removesuffix("; or give head_dim")
        raise ConfigError(re.sub(rf"\b({'|'.join(vars(config))})\b", r"model.\1", said)) from None


def resolve_resumed(
    folder: Path,
    task: str | None,
    preset: str | None,
    file: Path | str | None,
    words: Sequence[str],
    report: Report,
    origin: str = COMMAND_LINE,
) -> Resolved:
    """The settings of a stopped run; only its steps may grow, and what affects nothing but rounding may differ."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder} holds no run to resume: there is no {CONFIG} in it")
    saved = resolve(file=folder / CONFIG)
    alone = preset is None and file is None
    asked = resolve(task or saved.task, preset, folder / CONFIG if alone else file, words, origin)
    if asked.task != saved.task:
        raise ConfigError(f"{folder} holds a run of {saved.task}, not of {asked.task}")
    differing = differing_keys(saved, asked)
    saved = _with_more_steps(saved, asked, report) if STEPS in differing else saved
    kept = (STEPS, PACKING) if values_of(asked.settings).get(PACKING) == "auto" else (STEPS,)  # decided at the start
    differing = [key for key in differing if key not in kept]
    if wrong := [key for key in differing if key not in MAY_DIFFER]:
        other = ", ".join(wrong)
        raise ConfigError(f"{folder} was begun with another {other}; resume it without, or begin another run")
    if differing:
        what = f"{', '.join(differing)}: not as the run was begun"
        report(f"{what}; it goes on, and its numbers may be rounded differently")
    values = values_of(asked.settings)
    changed = replace(saved.settings.run, **{key.removeprefix("run."): values[key] for key in differing})
    return replace(saved, settings=replace(saved.settings, run=changed))


def _with_more_steps(saved: Resolved, asked: Resolved, report: Report) -> Resolved:
    """The settings of a run that goes on for more steps than it was begun with."""
    before, now = saved.settings.recipe, asked.settings.recipe
    if now.steps < before.steps:
        raise ConfigError(f"{STEPS} is {now.steps}, wanted at least {before.steps}, those the run was begun with")
    report(f"{STEPS} grows from {before.steps} to {now.steps}: the learning rate follows the longer schedule from here")
    settings = replace(saved.settings, recipe=replace(before, steps=now.steps))
    return replace(saved, settings=settings, origins={**saved.origins, STEPS: asked.origins[STEPS]})


def fixed_settings(settings: Settings) -> dict[str, str]:
    """The settings that must stay the same from the first step to the last, in the notation of TOML."""
    return {key: toml_value(as_toml(v)) for key, v in values_of(settings).items() if key not in MAY_DIFFER}
