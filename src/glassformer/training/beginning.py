"""What a run begins with: the settings of the model that it starts from."""

from dataclasses import replace
from typing import get_type_hints

from glassformer.checkpoints.load import Loaded
from glassformer.errors import ConfigError
from glassformer.models.encoder import EncoderConfig
from glassformer.training.keys import FAMILY, as_toml, defaults, shown, values_of
from glassformer.training.resolve import DEFAULT, Resolved
from glassformer.training.settings import Settings

RATES = ("model.dropout", "model.attention_dropout")  # of training, not of a model's shape
OF_THE_START = "run.init"
NOT_USED = "not used, the tokenizer is that of run.init"


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
        raise ConfigError(f"run.init is a {type(start.model).__name__}, which this task does not train")
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
    section = FAMILY.partition(".")[0]
    return {key: value for key, value in values_of(settings).items() if key.startswith(f"{section}.")}
