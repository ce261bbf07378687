"""Where settings come from: defaults, then a preset, then a TOML file, then key=value words; and back to TOML."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import cast, get_origin

from glassformer.errors import ConfigError
from glassformer.layers.config import LARGEST_WHOLE, Config
from glassformer.layers.model import Model
from glassformer.models.modern import require_used
from glassformer.models.registry import architecture_of, presets
from glassformer.suggestions import did_you_mean, nearest_names
from glassformer.training import registry
from glassformer.training.registry import FAMILY, SECTIONS, TASKS, defaults, families, keys, sections, values_of
from glassformer.training.renamed import renamed
from glassformer.training.schema import VALUE_LENGTH, as_toml, converted, in_words, printable, shown, toml_value
from glassformer.training.settings import FilePath, Settings
from glassformer.training.sizes import SIZES, data_size, for_data, has_gpu, resized, usual_size

DEFAULT, COMMAND_LINE, PYTHON = "default", "command line", "settings"
DROPOUT = ("model.dropout", "model.attention_dropout")  # of training, not of a model's shape
OF_THE_START = "run.init"
NOT_USED = "not used, the tokenizer is that of run.init"
DIM, FFN_DIM = "model.dim", "model.ffn_dim"
CONTEXT, LENGTH, HEADS, HEAD_DIM = "model.context", "data.max_length", "model.heads", "model.head_dim"
RATE, FINE_TUNING_RATE = "recipe.learning_rate", 2e-4  # a rate for weights that are trained already
LONGEST_WARMUP = 100  # steps of a warm-up that nobody chose
CONFIG_LENGTH = 1_000_000  # characters of a file of settings
NO_COMMENTS: Mapping[str, str] = MappingProxyType({})
WIDEST = 40  # columns before the comments, which are aligned except after longer values


@dataclass(frozen=True)
class Resolved:
    """The settings of a run, and where the value of each key comes from."""

    task: str
    settings: Settings
    origins: Mapping[str, str]


@dataclass(frozen=True)
class GivenValue:
    """A value that was given: as TOML, where, and as it was typed if it was."""

    value: object
    origin: str
    typed: str | None = None


def resolve(
    task: str | None = None,
    preset: str | None = None,
    file: Path | str | None = None,
    words: Iterable[str] = (),
    origin: str = COMMAND_LINE,
    size: str = "tiny",
) -> Resolved:
    """Settings of a task from its defaults < a size < a preset < a TOML file < words such as `recipe.steps=500`.

    `origin` is where the words come from, for errors and for the comments of a configuration.
    """
    if size not in SIZES:
        raise ConfigError(f"there is no size {shown(size)}; {did_you_mean(size, SIZES)}")
    table = {} if file is None else _read_toml(file)
    task = _task(task, table.pop("task", None), file)
    given = {**_from_tables(table, printable(str(file))), **_from_words(words, origin)}
    _require_current_names(task, given)
    values = values_of(defaults(task))
    origins = dict.fromkeys(values, DEFAULT)
    for key, value in SIZES[size].items():
        if key in values:
            values[key], origins[key] = value, f"size {size}"
    if FFN_DIM in values:
        values[FFN_DIM] = _proportional_ffn_dim(values_of(defaults(task)), values)
    if preset is not None:
        _start_model(task, values, origins, _fitting_preset(task, preset), f"preset {preset}")
    _choose_family(task, preset, given, values, origins)
    usual = dict(values)
    for key, value in given.items():
        values[key], origins[key] = _value_of(task, str(values[FAMILY]), key, value), value.origin
    if origins["recipe.warmup_steps"] == DEFAULT:
        values["recipe.warmup_steps"] = _default_warmup(values)
    if RATE not in given and values["run.init"]:
        values[RATE] = FINE_TUNING_RATE
    if FFN_DIM in usual and FFN_DIM not in given:
        values[FFN_DIM] = _proportional_ffn_dim(usual, values)
    _follow_each_other(values, given)
    return Resolved(task, _build_settings(task, values, origins), origins)


def from_settings(settings: Settings) -> Resolved:
    """Settings that were made in Python, every value with the origin "default"."""
    return Resolved(registry.task_of(settings), settings, dict.fromkeys(values_of(settings), DEFAULT))


def tables(resolved: Resolved) -> dict[str, object]:
    """The whole configuration as plain data, in the shape of the TOML file."""
    found: dict[str, dict[str, object]] = {section: {} for section in sections(resolved.task)}
    for key, value in values_of(resolved.settings).items():
        section, _, name = key.partition(".")
        found[section][name] = as_toml(value)
    return {"task": resolved.task, **found}


def to_toml(resolved: Resolved, *, origins: bool = False, comments: Mapping[str, str] = NO_COMMENTS) -> str:
    """The whole configuration as TOML, which `resolve` reads back.

    With origins, a comment after each value says where it comes from; `comments` are put above the keys they explain.
    """
    lines = [f"task = {toml_value(resolved.task)}"]
    for section, values in tables(resolved).items():
        if not isinstance(values, dict):
            continue
        lines += ["", f"[{section}]"]
        pairs = {f"{section}.{name}": f"{name} = {toml_value(value)}" for name, value in values.items()}
        width = min(max(map(len, pairs.values())), WIDEST)
        for key, pair in pairs.items():
            lines += [comments[key]] if comments.get(key) else []
            lines.append(f"{pair:<{width}}  # {resolved.origins[key]}" if origins else pair)
    return "\n".join(lines) + "\n"


def differing_keys(saved: Resolved, asked: Resolved) -> list[str]:
    """Keys that were given another value than the saved one."""
    before, now = values_of(saved.settings), values_of(asked.settings)
    given = [key for key in now if asked.origins[key] != DEFAULT]
    return [key for key in given if key not in before or before[key] != now[key]]


def _read_toml(file: Path | str) -> dict[str, object]:
    name = printable(str(file))
    try:
        with Path(file).open(encoding="utf-8-sig") as opened:
            text = opened.read(CONFIG_LENGTH + 1)  # a device can be read without end
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: is not UTF-8 text at byte {error.start}, wanted a TOML file") from error
    if len(text) > CONFIG_LENGTH:
        raise ConfigError(f"{name}: has more than {CONFIG_LENGTH:,} characters, wanted a TOML file of settings")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: is not valid TOML: {printable(str(error))}") from error


def _task(asked: str | None, named: object, file: Path | str | None) -> str:
    """The task that was given, or the one that a file names; they must agree."""
    where = "" if file is None else f"{printable(str(file))}: "
    wanted = f"wanted one of {', '.join(TASKS)}"
    if named is not None and (not isinstance(named, str) or named not in TASKS):
        raise ConfigError(f"{where}task is {shown(named)}, {wanted}")
    task = named if asked is None else asked
    if task is None:
        raise ConfigError(f"{where}no task is named, {wanted}")
    if task not in TASKS:
        raise ConfigError(f"there is no task {shown(task)}; {did_you_mean(task, TASKS)}")
    if named is not None and named != task:
        raise ConfigError(f"{where}task is {shown(named)}, but {task} was asked for")
    return task


def _from_tables(table: Mapping[str, object], origin: str) -> dict[str, GivenValue]:
    given: dict[str, GivenValue] = {}
    for section, entries in table.items():
        if section not in SECTIONS and isinstance(entries, dict):
            raise ConfigError(f"{origin}: there is no table {_brief_key(section)}; {did_you_mean(section, SECTIONS)}")
        if section not in SECTIONS:
            given[section] = GivenValue(entries, origin)  # no key has this name: reported with the nearest
        elif not isinstance(entries, dict):
            raise ConfigError(f"{origin}: {section} is {shown(entries)}, wanted a table: [{section}] and its keys")
        else:
            given.update({f"{section}.{name}": GivenValue(value, origin) for name, value in entries.items()})
    return given


def _require_current_names(task: str, given: Mapping[str, GivenValue]) -> None:
    """Refuse older names of keys and values; one error for a file names all of them."""
    for origin in dict.fromkeys(each.origin for each in given.values()):
        theirs = {key: each.value for key, each in given.items() if each.origin == origin}
        if said := renamed(theirs, _every_key(task)):
            raise ConfigError(f"{origin}: {said}")


def _every_key(task: str) -> set[str]:
    """The keys of a task with any of its model families."""
    return {key for family in families(task) for key in keys(task, family)}


def _from_words(words: Iterable[str], origin: str) -> dict[str, GivenValue]:
    given: dict[str, GivenValue] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"{origin}: {shown(word)} sets nothing, wanted key=value, as in recipe.steps=500")
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # a byte of the command line that is not text
            raise ConfigError(f"{origin}: {_brief_key(key)} is not UTF-8, wanted text")
        given[key] = GivenValue(_typed_value(text), origin, text)
    return given


def _typed_value(text: str) -> object:
    """The value of a word as TOML, or its text where it is not TOML."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text


def _fitting_preset(task: str, name: str) -> Config:
    fitting = [preset for preset, config in presets().items() if architecture_of(config) in families(task)]
    if name not in fitting:
        what = f"preset {name} is not a model for {task}" if name in presets() else f"there is no preset {shown(name)}"
        raise ConfigError(f"{what}; those that fit: {', '.join(fitting)}")
    return presets()[name]


def _start_model(task: str, values: dict[str, object], origins: dict[str, str], config: Config, origin: str) -> None:
    """Replace all keys of the model by those of another."""
    for key in [key for key in values if key.startswith("model.")]:
        del values[key], origins[key]
    fields = {f"model.{name}": value for name, value in vars(config).items()}
    chosen = {key: value for key, value in fields.items() if key not in registry.follows(task)}
    fresh = {FAMILY: architecture_of(config), **chosen}
    values.update(fresh)
    origins.update(dict.fromkeys(fresh, origin))


def _choose_family(
    task: str, preset: str | None, given: Mapping[str, GivenValue], values: dict[str, object], origins: dict[str, str]
) -> None:
    """Start from the defaults of the family that was given, if it is another."""
    if FAMILY not in given:
        return
    family = str(_value_of(task, str(values[FAMILY]), FAMILY, given[FAMILY]))
    if family == values[FAMILY]:
        return
    if preset is not None:
        what = f"{FAMILY} is {family}, but preset {preset} is a {values[FAMILY]}; leave one out"
        raise ConfigError(f"{given[FAMILY].origin}: {what}")
    origin = origins.get(DIM, DEFAULT)
    _start_model(task, values, origins, resized(registry.family_config(family)(), values), origin)


def _default_warmup(values: Mapping[str, object]) -> int:
    """The default warm-up, but at most a tenth of the steps: it would be most of a short run."""
    steps = cast(int, values["recipe.steps"])
    return min(LONGEST_WARMUP, max(steps // 10, 1), steps - 1)


def _follow_each_other(values: dict[str, object], given: Mapping[str, GivenValue]) -> None:
    """The length of the data and the model's context fit where only one of them was given; so do heads of T5."""
    length, context = values.get(LENGTH), values.get(CONTEXT)
    if isinstance(length, int) and isinstance(context, int) and length > context:
        if CONTEXT in given and LENGTH not in given:
            values[LENGTH] = context
        if LENGTH in given and CONTEXT not in given:
            values[CONTEXT] = length
    if isinstance(values.get(HEAD_DIM), int) and HEAD_DIM not in given and {DIM, HEADS} & set(given):
        values[HEAD_DIM] = max(cast(int, values[DIM]) // cast(int, values[HEADS]), 1)


def suited(resolved: Resolved) -> Resolved:
    """The settings with defaults that suit the size of the data; not for a model that brings its own tokenizer."""
    values, data = values_of(resolved.settings), resolved.settings.data
    paths = [data.path, *filter(None, [vars(data).get("target_path")])]
    size = data_size(*paths)
    if size is None or resolved.settings.run.init:
        return resolved
    free = {key for key, origin in resolved.origins.items() if origin == DEFAULT or origin.startswith("size ")}
    chosen = {key: value for key, value in for_data(values, size).items() if key in free and value != values[key]}
    origins = {**resolved.origins, **dict.fromkeys(chosen, f"{size / 1e6:.2g} MB of data")}
    return Resolved(resolved.task, _build_settings(resolved.task, {**values, **chosen}, origins), origins)


def resolve_for_machine(
    task: str | None, preset: str | None, file: Path | str | None, words: Sequence[str], origin: str, size: str | None
) -> Resolved:
    """Settings with defaults that suit the machine and the data; a file of settings is taken as it is."""
    first = resolve(task, preset, file, words, origin, size or "tiny")
    if file is not None:
        return first
    run, data = first.settings.run, first.settings.data
    grows = size is None and not run.init and TASKS[first.task].reads_text and TASKS[first.task].grows
    if grows and (size := usual_size(has_gpu(run.device), data_size(data.path))) != "tiny":
        first = resolve(task, preset, file, words, origin, size)
    return suited(first)


def _proportional_ffn_dim(usual: Mapping[str, object], values: Mapping[str, object]) -> object:
    """The feed-forward dimension, in the default proportion to the model's."""
    if usual[FFN_DIM] is None:  # the model derives it
        return None
    before, dim, ffn_dim = (cast(int, number) for number in (usual[DIM], values[DIM], usual[FFN_DIM]))
    return min(max(ffn_dim * dim // before, 1), LARGEST_WHOLE)


def _value_of(task: str, family: str, key: str, given: GivenValue) -> object:
    """The given value of a key, as that key's type."""
    known = keys(task, family)
    if key not in known:
        raise ConfigError(f"{given.origin}: {unknown_key(task, family, key)}")
    value = given.value
    if given.typed is not None and get_origin(known[key]) is tuple and not isinstance(value, list):
        value = [_typed_value(part.strip()) for part in given.typed.split(",")]  # 0.9,0.95 is a list too
    try:
        return converted(key, value, known[key])
    except ConfigError as error:
        if given.typed is not None and known[key] in (str, FilePath):
            return given.typed  # a path may look like a number
        raise ConfigError(f"{given.origin}: {error}") from None


def unknown_key(task: str, family: str, key: str) -> str:
    """What is wrong with a key that a task with this model family does not have."""
    if key in registry.follows(task):
        return f"{key} cannot be set, it follows from {registry.follows(task)[key]}"
    if key.startswith("tokenizer.") and not TASKS[task].reads_text:
        return f"{_brief_key(key)} cannot be set: {task} reads no text, so it has no tokenizer"
    if said := renamed({key: None}, _every_key(task)):
        return said
    if others := [other for other in families(task) if key in keys(task, other)]:
        return f"{key} is not a key of a {family}; {FAMILY} can be {' or '.join(others)}, which have it"
    known, whole = keys(task, family), key.rpartition(".")[0]
    if whole in known:
        return f"{whole} is one value and has no key {_brief_key(key)}, wanted {in_words(known[whole])}"
    hint = f"`glassformer config {task}` lists them all"
    if close := nearest_names(_brief_key(key), known):
        hint = f"did you mean {close[0]} ({in_words(known[close[0]])})?"
    return f"there is no key {_brief_key(key)} in {task}; {hint}"


def _build_settings(task: str, values: Mapping[str, object], origins: Mapping[str, str]) -> Settings:
    """Settings from the value of every key; fields that follow from the task or the data are not keys."""
    start = defaults(task)
    made: dict[str, object] = {}
    for section in sections(task):
        part, prefix = vars(start)[section], f"{section}."
        if section == "model" and architecture_of(part) != values[FAMILY]:
            part = registry.family_config(str(values[FAMILY]))(**TASKS[task].config_values)
        chosen = {key.removeprefix(prefix): values[key] for key in values if key.startswith(prefix) and key != FAMILY}
        try:
            made[section] = replace(part, **chosen)
            require_used(made[section])
        except ConfigError as error:
            named = [name for name in chosen if re.search(rf"\b{name}\b", str(error))]
            sources = ", ".join(f"{prefix}{name}: {origins[prefix + name]}" for name in named)
            raise ConfigError(f"{section}: {error} ({sources})") from error
    return replace(start, **made)


def _brief_key(key: str) -> str:
    """A key in an error, shortened."""
    return printable(key if len(key) <= VALUE_LENGTH else key[:VALUE_LENGTH] + "…")


def with_initial_model(resolved: Resolved, start: Model, has_tokenizer: bool) -> Resolved:
    """The settings with the configuration of the initial model in place of theirs; only dropout may differ."""
    settings, origins = resolved.settings, dict(resolved.origins)
    if has_tokenizer:
        _require_no_tokenizer(resolved)
        origins |= {key: NOT_USED for key in origins if key.startswith("tokenizer.")}
    fits = isinstance(start, TASKS[resolved.task].protocol)
    if not fits or architecture_of(start.config) not in families(resolved.task):
        raise ConfigError(f"run.init holds {type(start).__name__}, which this task does not train")
    found = replace(settings, model=replace(start.config, **TASKS[resolved.task].config_values))
    has, asked = _model_values(found), _model_values(settings)
    given = {key: value for key, value in asked.items() if origins[key] != DEFAULT}
    for key, value in given.items():
        if key not in has or (has[key] != value and key not in DROPOUT):
            theirs = shown(as_toml(has[key])) if key in has else "no such key"
            change = f"{key} is {shown(as_toml(value))}, but {settings.run.init} has {theirs}"
            raise ConfigError(f"{change}: the initial model keeps its shape, so leave the setting out")
    dropout = {key.removeprefix("model."): value for key, value in given.items() if key in DROPOUT}
    origins = {key: origin for key, origin in origins.items() if key not in asked}
    origins |= {key: resolved.origins[key] if key in given else OF_THE_START for key in has}
    found, context = replace(found, model=replace(found.model, **dropout)), has.get(CONTEXT)
    if origins.get(LENGTH) == DEFAULT and isinstance(context, int) and context < vars(found.data)["max_length"]:
        found = replace(found, data=replace(found.data, max_length=context))
    return replace(resolved, settings=found, origins=origins)


def _require_no_tokenizer(resolved: Resolved) -> None:
    usual, init = values_of(defaults(resolved.task)), resolved.settings.run.init
    for key, value in values_of(resolved.settings).items():
        given = key.startswith("tokenizer.") and resolved.origins[key] != DEFAULT
        if given and value != usual[key]:
            why = f"the tokenizer comes with the model of run.init, {init}; leave one of them out"
            raise ConfigError(f"{key} is {shown(value)}, but {why}")


def _model_values(settings: Settings) -> dict[str, object]:
    return {key: value for key, value in values_of(settings).items() if key.startswith("model.")}
