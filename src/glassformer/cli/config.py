"""`glassformer config`: every setting of a task, and where its value comes from."""

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import Json, MaybePath, write, write_json
from glassformer.training import tasks

if TYPE_CHECKING:
    from glassformer.training.config import Resolved

TASK_NAMES = ", ".join(sorted(file.name for file in pkgutil.iter_modules(tasks.__path__)))  # without loading torch
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
    """

    preset: str | None = None
    config: MaybePath = None


NO_SOURCES = Sources()


def config(*words: Words, sources: Sources = NO_SOURCES, json: Json = False) -> None:
    """Show every setting of a task and where its value comes from, as TOML."""
    from glassformer.training.config import tables, to_toml

    resolved = settle(words, sources)
    if json:
        write_json({"config": tables(resolved), "origins": resolved.origins})
    else:
        write(to_toml(resolved, origins=True).rstrip("\n"))


def settle(words: Sequence[str], sources: Sources) -> "Resolved":
    """The settings of a command line."""
    from glassformer.training.config import resolve

    task, settings = task_and_settings(words)
    return resolve(task, sources.preset, sources.config, settings)


def task_and_settings(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The first word is the task, unless it is a setting."""
    return (words[0], words[1:]) if words and "=" not in words[0] else (None, words)
