"""`glassformer config`: every setting of a task, what it means, and where its value comes from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import Json, MaybePath, write, write_json
from glassformer.cli.task_names import TASK_NAMES

if TYPE_CHECKING:
    from glassformer.training.config import Resolved

Words: TypeAlias = Annotated[
    str,
    Parameter(
        help=f"First the task ({TASK_NAMES}), not needed if --config names it. Then any settings as key=value, such as "
        "recipe.steps=500 recipe.learning_rate=3e-4 model.layers=6 tokenizer.kind=characters run.device=cpu; "
        "`glassformer config TASK` lists all keys of a task with their values. Later values win: defaults, then "
        "--preset, then --config, then these."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where settings come from besides key=value arguments.

    Parameters
    ----------
    preset
        Model preset to start from; `glassformer models` lists them.
    config
        TOML file of settings, such as the config.toml of a run.
    size
        Size of the defaults: tiny, small or base; if left out, what suits the machine and the data.
    """

    preset: str | None = None
    config: MaybePath = None
    size: str | None = None


NO_SOURCES = Sources()


def config(*words: Words, sources: Sources = NO_SOURCES, json: Json = False) -> None:
    """Show every setting of a task with its meaning and origin, as TOML; or explain some keys."""
    from glassformer.models.registry import architecture_of
    from glassformer.training.config import tables, to_toml
    from glassformer.training.explain import comments

    task, others = task_and_settings(words)
    asked = [word for word in others if "=" not in word]
    named = () if task is None else (task,)
    resolved = settle([*named, *(word for word in others if "=" in word)], sources)
    explained = [_explained(resolved, key) for key in asked]
    if json and asked:
        write_json(explained)
    elif json:
        write_json({"config": tables(resolved), "origins": resolved.origins})
    elif asked:
        write("\n\n".join(map(_in_lines, explained)))
    else:
        above = comments(resolved.task, architecture_of(resolved.settings.model))
        write(to_toml(resolved, origins=True, comments=above).rstrip("\n"))


def _explained(resolved: "Resolved", key: str) -> dict[str, str]:
    """One setting: its meaning, its value here, and what else it may be."""
    from glassformer.errors import ConfigError
    from glassformer.training.config import unknown_key
    from glassformer.training.explain import explain, families_with
    from glassformer.training.registry import FAMILY, values_of
    from glassformer.training.schema import as_toml, toml_value

    values = values_of(resolved.settings)
    family = str(values[FAMILY])
    others = [] if key in values else families_with(resolved.task, key)
    if key not in values and not others:
        raise ConfigError(unknown_key(resolved.task, family, key))
    found = explain(resolved.task, others[0] if others else family, key)
    here = f"{key} = {toml_value(as_toml(values[key]))} ({resolved.origins[key]})" if key in values else key
    needs = f"{FAMILY} is {' or '.join(others)}" if others else ""
    told = {"key": key, "value": here, "meaning": found.meaning, "only_where": needs, "accepts": found.accepts}
    return {name: text for name, text in {**told, "default": found.default, "example": found.word}.items() if text}


def _in_lines(told: dict[str, str]) -> str:
    """An explanation as text: value and meaning, then the rest by name."""
    rest = [
        f"{name.replace('_', ' ')}: {text}" for name, text in told.items() if name not in ("key", "value", "meaning")
    ]
    return "\n".join([told["value"], told["meaning"], *rest])


def settle(words: Sequence[str], sources: Sources) -> "Resolved":
    """The settings of a command line."""
    from glassformer.training.config import COMMAND_LINE, resolve_for_machine

    task, settings = task_and_settings(words)
    return resolve_for_machine(task, sources.preset, sources.config, settings, COMMAND_LINE, sources.size)


def task_and_settings(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The first word is the task, unless it is a setting."""
    return (words[0], words[1:]) if words and "=" not in words[0] else (None, words)
