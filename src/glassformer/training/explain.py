"""What a setting means: one line, its default, the values it accepts and an example, as its field declares them."""

import shlex
import tomllib
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

from glassformer.layers.config import EXAMPLE, MEANING, field_notes
from glassformer.training.registry import (
    FAMILY,
    TASKS,
    declaring_class,
    defaults,
    families,
    family_config,
    keys,
    values_of,
)
from glassformer.training.schema import as_toml, in_words, toml_value
from glassformer.training.sizes import resized

FAMILY_MEANING = "Architecture of the model; its other settings are those of the architecture."


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A setting in words; default and example are in the notation of TOML, and empty where there is none."""

    key: str
    meaning: str
    accepts: str
    default: str
    example: str

    @property
    def word(self) -> str:
        """The example as an argument of the command line, quoted as a shell needs it."""
        value = tomllib.loads(f"value = {self.example}")["value"]
        if isinstance(value, list):
            value = ",".join(map(str, value))
        return shlex.quote(f"{self.key}={value if isinstance(value, str) else self.example}")


def explain(task: str, family: str, key: str) -> Explanation:
    """What a key of a task with this model family means."""
    kind, name = keys(task, family)[key], key.partition(".")[2]
    usual = values_of(defaults(task))
    if key.startswith("model.") and usual[FAMILY] != family:
        fields = vars(resized(family_config(family)(), usual))
        usual = {FAMILY: family, **{f"model.{field}": value for field, value in fields.items()}}
    notes = {MEANING: FAMILY_MEANING} if key == FAMILY else field_notes(declaring_class(task, family, key), name)
    example = notes.get(EXAMPLE)
    example = _other(kind, usual[key]) if example is None else example
    return Explanation(
        key=key,
        meaning=str(notes.get(MEANING, "")),
        accepts=in_words(kind),
        default=toml_value(as_toml(usual[key])),
        example="" if example is None else toml_value(as_toml(example)),
    )


def families_with(task: str, key: str) -> list[str]:
    """The model families of a task that have a key."""
    return [family for family in families(task) if key in keys(task, family)]


def comments(task: str, family: str) -> dict[str, str]:
    """The comment above each setting in a TOML file."""
    return {key: comment(task, family, key) for key in keys(task, family)}


def comment(task: str, family: str, key: str) -> str:
    """The comment above a setting in a TOML file; empty where a task does not explain its setting."""
    found = explain(task, family, key)
    example = f"; for example {found.example}" if found.example else ""
    return f"# {found.meaning} Accepts {found.accepts}{example}." if found.meaning else ""


def _other(kind: object, value: object) -> object:
    """Another value of a type that has only a few, or the value where it has no other."""
    if kind is bool:
        return not value
    if get_origin(kind) is not Literal:
        return None
    return next((choice for choice in get_args(kind) if choice != value), value)


def every_setting() -> list[tuple[str, str, str]]:
    """Task, family and key of every setting there is."""
    return [(task, family, key) for task in TASKS for family in families(task) for key in keys(task, family)]
