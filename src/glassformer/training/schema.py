"""What can be set: the keys of each task, their types said in words, and values turned into those types."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType
from typing import Annotated, Literal, cast, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import tomli_w

from glassformer.checkpoints.native import RENAMED_FIELDS
from glassformer.errors import ConfigError
from glassformer.layers.config import LARGEST_WHOLE, in_plain_words
from glassformer.layers.rotary import ROPE_SCALINGS, RopeScaling
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.training.settings import TASKS, Settings

SECTIONS = ("data", "tokenizer", "model", "recipe", "run")
FAMILY = "model.family"
MODEL_CONFIGS: dict[str, type] = {
    "seq2seq": Seq2SeqConfig,
    "t5": T5Config,
    "gpt": GPTConfig,
    "llama": LlamaConfig,
    "modern": ModernConfig,
    "encoder": EncoderConfig,
}
FOLLOWS = {"model.vocab": "the tokenizer", "model.classes": "the labels in the data", "model.head": "the task"}
# Keys that older files of settings have, and what they are called now.
RENAMED = {
    "data.second": "data.target_path",
    "data.validation_second": "data.validation_target_path",
    "data.test_second": "data.test_target_path",
    "data.beam": "data.num_beams",
    "data.share": "data.validation_fraction",
    "data.longest": "data.max_length",
    "data.tokens": "data.tokens_per_batch",
    "data.batch": "data.batch_size",
    "data.length": "data.sequence_length",
    "tokenizer.vocab": "tokenizer.vocab_size",
    **{f"model.{old}": f"model.{new}" for old, new in RENAMED_FIELDS.items()},
    "recipe.rate": "recipe.learning_rate",
    "recipe.warmup": "recipe.warmup_steps",
    "recipe.floor": "recipe.min_lr_ratio",
    "recipe.decay": "recipe.weight_decay",
    "recipe.clip": "recipe.max_grad_norm",
    "recipe.smoothing": "recipe.label_smoothing",
    "recipe.agreement": "recipe.r_drop",
    "recipe.accumulate": "recipe.gradient_accumulation",
    "recipe.average": "recipe.ema_decay",
    "recipe.average_last": "recipe.average_checkpoints",
    "run.compiled": "run.compile",
    "run.sharing": "run.strategy",
    "run.keep": "run.keep_checkpoints",
}
NO_VALUE = "none"  # TOML has no word for it
LEAST = {"keep_checkpoints": 2, "seed": 0, "patience": 0}  # 1 of other whole numbers
SHARES = ("label_smoothing", "ema_decay", "min_lr_ratio", "betas")  # from 0 to just below 1
MAY_BE_ZERO, MAY_BE_ENDLESS = ("weight_decay", "r_drop"), "max_grad_norm"  # other numbers are above zero and finite
VALUE_LENGTH = 60  # characters of a wrong value in an error


def defaults(task: str) -> Settings:
    """The settings of a task where nobody chose anything."""
    return cast(Callable[[], Settings], TASKS[task])()


@cache
def families(task: str) -> tuple[str, ...]:
    """Names of the model families a task can train; the first is not always its default."""
    hint = get_type_hints(TASKS[task])["model"]
    return tuple(name for name, config in MODEL_CONFIGS.items() if config in (get_args(hint) or (hint,)))


def family_of(config: object) -> str | None:
    """The name of a model configuration's family, if it can be trained."""
    return next((name for name, kind in MODEL_CONFIGS.items() if kind is type(config)), None)


@cache
def keys(task: str, family: str) -> Mapping[str, object]:
    """Every key of a task with this family of model, in the order they are shown, and its type."""
    found: dict[str, object] = {}
    hints = get_type_hints(TASKS[task])
    for section in SECTIONS:
        if section == "model":
            found[FAMILY] = Literal[families(task)]
        kind = MODEL_CONFIGS[family] if section == "model" else hints[section]
        found.update({f"{section}.{name}": hint for name, hint in get_type_hints(kind, include_extras=True).items()})
    return {key: kind for key, kind in found.items() if key not in FOLLOWS}


def values_of(settings: Settings) -> dict[str, object]:
    """The value of every key."""
    found: dict[str, object] = {}
    for section in SECTIONS:
        if section == "model":
            found[FAMILY] = family_of(settings.model)
        found.update({f"{section}.{name}": value for name, value in vars(getattr(settings, section)).items()})
    return {key: value for key, value in found.items() if key not in FOLLOWS}


def in_words(key: str, kind: object) -> str:
    """What a key wants, for a person."""
    if kind in (int, float):
        return _range_in_words(key.rpartition(".")[2], kind is int)
    if get_origin(kind) is Annotated:
        return in_plain_words(kind)
    simple = {bool: "true or false", str: "text", NoneType: f'"{NO_VALUE}"'}
    if kind in simple:
        return simple[cast(type, kind)]
    if kind is RopeScaling:
        return f"a table with a kind, one of {', '.join(ROPE_SCALINGS)}"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is tuple:
        return f"a list of {len(get_args(kind))}, each {in_words(key, get_args(kind)[0])}"
    return ", or ".join(in_words(key, part) for part in get_args(kind))


def converted(key: str, value: object, kind: object) -> object:
    """A value as its key's type, or an error that says what was wanted; nothing is rounded or guessed."""
    parts = get_args(kind)
    if NoneType in parts:
        if value == NO_VALUE:
            return None
        wanted = parts[0]
    else:
        wanted = kind
    if wanted is RopeScaling and isinstance(value, dict):
        return _scaling(key, value)
    try:
        result = msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        result = None
    ranged = get_origin(wanted) is Annotated  # its type says the range
    if result is None or not (ranged or _in_range(key.rpartition(".")[2], result)):
        raise ConfigError(f"{key} is {shown(value)}, wanted {in_words(key, kind)}")
    return result


def as_toml(value: object) -> object:
    """A value as TOML can say it."""
    if value is None:
        return NO_VALUE
    if isinstance(value, RopeScaling):
        kind = next(name for name, scaling in ROPE_SCALINGS.items() if scaling is type(value))
        return {"kind": kind, **vars(value)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def toml_value(value: object) -> str:
    """A value in the notation of TOML, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_pair(name, item)}' for name, item in value.items())}}}"
    return tomli_w.dumps({"x": value})[len("x = ") : -1]


def shown(value: object) -> str:
    """A value in an error: its beginning is enough."""
    text = printable(toml_value(value))
    return text if len(text) <= VALUE_LENGTH else text[:VALUE_LENGTH] + "…"


def printable(text: str) -> str:
    """Text that stays on its line whatever it was."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _pair(name: str, value: object) -> str:
    """A key and its value; the key is quoted where TOML asks for it."""
    return f"{tomli_w.dumps({name: 0})[: -len(' = 0') - 1]} = {toml_value(value)}"


def _scaling(key: str, table: dict[str, object]) -> RopeScaling:
    """A table with a kind as the class of that kind."""
    kind = converted(f"{key}.kind", table.get("kind", ""), Literal[tuple(ROPE_SCALINGS)])
    scaling = ROPE_SCALINGS[str(kind)]
    hints = get_type_hints(scaling, include_extras=True)
    unknown = [name for name in table if name not in hints and name != "kind"]
    if unknown:
        raise ConfigError(f"{key}: the kind {kind} has no {shown(unknown[0])}, it has {', '.join(hints)}")
    for field in fields(scaling):
        if field.name not in table and field.default is MISSING:
            raise ConfigError(
                f"{key}: the kind {kind} lacks {field.name}, wanted {in_words(field.name, hints[field.name])}"
            )
    given = {name: converted(f"{key}.{name}", value, hints[name]) for name, value in table.items() if name != "kind"}
    return scaling(**given)


def _range_in_words(name: str, whole: bool) -> str:
    if whole:
        return f"a whole number, {LEAST.get(name, 1)} or more"
    if name in SHARES:
        return "a number from 0 to just below 1"
    if name == "validation_fraction":
        return "a number between 0 and 1"
    return "a number, 0 or more" if name in MAY_BE_ZERO else "a number above 0"


def _in_range(name: str, value: object) -> bool:
    """Whether a number can be meant; of anything else there is nothing to ask."""
    if isinstance(value, tuple):
        return all(_in_range(name, item) for item in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    if isinstance(value, int):
        return LEAST.get(name, 1) <= value <= LARGEST_WHOLE
    if name in SHARES or name == "validation_fraction":
        return 0 < value < 1 or (value == 0 and name in SHARES)
    return 0 < value < math.inf or (value == 0 and name in MAY_BE_ZERO) or (value > 0 and name == MAY_BE_ENDLESS)
