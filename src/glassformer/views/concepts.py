"""The field's words: what each means, and which lessons and equations show it."""

from functools import cache
from importlib.resources import files

import msgspec


class Concept(msgspec.Struct, frozen=True, kw_only=True):
    """A word of the field, its meaning, and where to see it: lessons to walk and equations to look up."""

    name: str
    meaning: str
    lessons: tuple[str, ...]
    equations: tuple[str, ...]


@cache
def concepts() -> tuple[Concept, ...]:
    """Every word, in the order of the alphabet."""
    data = files("glassformer.views").joinpath("concepts.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Concept, ...])
