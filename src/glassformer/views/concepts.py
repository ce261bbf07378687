"""The glossary: what each term means, and which lessons and equations show it."""

from functools import cache
from importlib.resources import files

import msgspec


class Concept(msgspec.Struct, frozen=True, kw_only=True):
    """A term, its meaning, and the lessons and equations that show it."""

    name: str
    meaning: str
    lessons: tuple[str, ...]
    equations: tuple[str, ...]


@cache
def concepts() -> tuple[Concept, ...]:
    """Every term, in alphabetical order."""
    data = files("glassformer.views").joinpath("concepts.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Concept, ...])
