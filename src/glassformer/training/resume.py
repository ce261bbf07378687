"""What a run begins with: an empty folder, or the settings of a stopped run, or of the model to start from."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import msgspec

from glassformer.checkpoints.load import Loaded
from glassformer.checkpoints.run_checkpoints import MODEL_CONFIG
from glassformer.checkpoints.save import model_files
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models.encoder import EncoderConfig
from glassformer.safe_read import read_table
from glassformer.training.config import COMMAND_LINE, DEFAULT, Resolved, differing_keys, resolve
from glassformer.training.schema import as_toml, defaults, shown, toml_value, values_of
from glassformer.training.settings import Settings
from glassformer.training.tasks import Say

CONFIG = "config.toml"
MAY_DIFFER = ("run.device", "run.precision", "run.compile")  # when a run is resumed
FILES = (
    "data.path", "data.target_path", "data.validation", "data.validation_target_path",
    "data.test", "data.test_target_path", "tokenizer.file", "run.init",
)  # fmt: skip
RATES = ("model.dropout", "model.attention_dropout")  # of training, not of a model's shape
OF_THE_START = "run.init"
NOT_USED = "not used, the tokenizer is that of run.init"


def require_free(folder: Path) -> None:
    """Refuse a folder with a run in it, or with a model that the new one would take the place of."""
    if run_files(folder):
        raise ConfigError(f"{folder} already holds a run: resume it, or choose another folder")
    if found := model_files(folder):
        raise ConfigError(f"{folder} already holds a model, in {', '.join(found)}: choose another folder")


def require_real_files(settings: Settings) -> None:
    """Refuse a pipe or a device among the files that a run reads: data is read more than once, and a pipe waits."""
    for key, value in values_of(settings).items():
        if key in (*FILES, "data.extra") and value and os.path.exists(str(value)):
            path = Path(str(value))
            if not path.is_file() and not path.is_dir():
                raise ConfigError(f"{key} is {shown(value)}, a pipe or a device: wanted a file or a folder")


def run_files(folder: Path) -> list[str]:
    """What a folder holds of a run: its settings and its checkpoints."""
    return [path.name for pattern in (CONFIG, "step-*") for path in sorted(folder.glob(pattern))]


def read_labels(folder: Path) -> tuple[str, ...] | None:
    """The labels that a run of a classifier was begun with, or None for any other run."""
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
    say: Say,
    origin: str = COMMAND_LINE,
) -> Resolved:
    """The settings of a stopped run; others may be asked for only where no number but a rounding depends on them."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder} holds no run to resume: there is no {CONFIG} in it")
    saved = resolve(file=folder / CONFIG)
    alone = preset is None and file is None
    asked = resolve(task or saved.task, preset, folder / CONFIG if alone else file, words, origin)
    if asked.task != saved.task:
        raise ConfigError(f"{folder} holds a run of {saved.task}, not of {asked.task}")
    differing = differing_keys(saved, asked)
    if wrong := [key for key in differing if key not in MAY_DIFFER]:
        raise ConfigError(
            f"{folder} was begun with another {', '.join(wrong)}; resume it without, or begin another run"
        )
    if differing:
        say(f"{', '.join(differing)} differ from before: the run goes on, but its numbers are rounded differently")
    values = values_of(asked.settings)
    changed = replace(saved.settings.run, **{key.removeprefix("run."): values[key] for key in differing})
    return replace(saved, settings=replace(saved.settings, run=changed))


def fixed_settings(settings: Settings) -> dict[str, str]:
    """The settings that stay as they are from the first step to the last, in the notation of TOML."""
    return {key: toml_value(as_toml(v)) for key, v in values_of(settings).items() if key not in MAY_DIFFER}


def fitted(resolved: Resolved, start: Loaded) -> Resolved:
    """The settings with the model that is started from in place of theirs; only its dropout may be another."""
    settings, origins = resolved.settings, dict(resolved.origins)
    if start.tokenizer is not None:
        _require_no_tokenizer(resolved)
        origins |= {key: NOT_USED for key in origins if key.startswith("tokenizer.")}
    found = replace(settings, model=_config_of(settings, start))
    has, asked = _model_values(found), _model_values(settings)
    given = {key: value for key, value in asked.items() if origins[key] != DEFAULT}
    for key, value in given.items():
        if key not in has or (has[key] != value and key not in RATES):
            theirs = shown(as_toml(has[key])) if key in has else "no such key"
            raise ConfigError(
                f"{key} is {shown(as_toml(value))}, but {settings.run.init} has {theirs}: "
                "a model that is started from keeps its shape"
            )
    rates = {key.removeprefix("model."): value for key, value in given.items() if key in RATES}
    origins = {key: origin for key, origin in origins.items() if key not in asked}
    origins |= {key: resolved.origins[key] if key in given else OF_THE_START for key in has}
    return replace(resolved, settings=replace(found, model=replace(found.model, **rates)), origins=origins)


def _config_of(settings: Settings, start: Loaded) -> object:
    """The configuration of the model to start from, with the head that the task needs."""
    config = start.model.config
    if not isinstance(config, get_type_hints(type(settings))["model"]):
        raise ConfigError(f"run.init holds {type(start.model).__name__}, which this task does not train")
    if isinstance(config, EncoderConfig) and isinstance(settings.model, EncoderConfig):
        return replace(config, head=settings.model.head)
    return config


def _require_no_tokenizer(resolved: Resolved) -> None:
    usual, init = values_of(defaults(resolved.task)), resolved.settings.run.init
    for key, value in values_of(resolved.settings).items():
        given = key.startswith("tokenizer.") and resolved.origins[key] != DEFAULT
        if given and value != usual[key]:
            raise ConfigError(
                f"{key} is {shown(value)}, but the tokenizer comes with the model of run.init, {init}; "
                "leave one of them out"
            )


def _model_values(settings: Settings) -> dict[str, object]:
    return {key: value for key, value in values_of(settings).items() if key.startswith("model.")}
