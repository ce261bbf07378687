"""`glassformer config`: every setting of a task, and where its value comes from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from glassformer.cli.report import Json, MaybePath, write, write_json

if TYPE_CHECKING:
    from glassformer.training.config import Resolved


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


def config(*words: str, sources: Sources = NO_SOURCES, json: Json = False) -> None:
    """Show every setting of a task and where its value comes from, as TOML.

    Parameters
    ----------
    words
        The task (translate, gpt, masked or classify), unless --config names it; then settings as key=value, such
        as recipe.steps=500. They override --config, which overrides --preset, which overrides the defaults.
    """
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
