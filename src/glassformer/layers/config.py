"""Configurations: frozen dataclasses whose fields declare type and range, checked when they are made."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import NoneType
from typing import Annotated, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta

from glassformer.errors import ConfigError, EquationError

LARGEST_WHOLE = 2**63 - 1  # of the whole numbers of TOML and of PyTorch
LARGEST_NUMBER = sys.float_info.max  # so that infinity is out of range
MOST_LAYERS = 4096  # each takes time to build, whatever its width

Size = Annotated[int, Meta(ge=1, le=LARGEST_WHOLE)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_WHOLE)]
Layers = Annotated[int, Meta(ge=0, le=MOST_LAYERS)]
OneOrMoreLayers = Annotated[int, Meta(ge=1, le=MOST_LAYERS)]
Probability = Annotated[float, Meta(ge=0, lt=1)]
Positive = Annotated[float, Meta(gt=0, le=LARGEST_NUMBER)]
LimitOrNone = Annotated[float, Meta(ge=0)] | None  # 0 or none is no limit, and so is infinity
NotNegative = Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)]
Fraction = Annotated[float, Meta(gt=0, lt=1)]
MEANING, EXAMPLE = "meaning", "example"  # of a field, in its metadata
T = TypeVar("T")


def setting(default: T, meaning: str, example: object = None) -> T:
    """A field of a configuration with its default, one line that says what it means, and another value to try.

    Without an example, one follows from the default and the type. A subclass that only changes the default of a
    field keeps its meaning.
    """
    return cast(T, dataclasses.field(default=default, metadata={MEANING: meaning, EXAMPLE: example}))


@dataclasses.dataclass(frozen=True)
class Config:
    """A frozen dataclass that checks its values against the declared types; a wrong one is a ConfigError."""

    def __post_init__(self) -> None:
        for name, kind in field_types(type(self)).items():
            value = getattr(self, name)
            object.__setattr__(self, name, as_declared(f"{type(self).__name__}: {name}", value, kind))


@cache
def field_types(config: type) -> Mapping[str, object]:
    """The declared type of every field, its range included."""
    hints = get_type_hints(config, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(config)}


def field_notes(config: type, name: str) -> Mapping[str, object]:
    """What `setting` says of a field, in the class or in the nearest one above it; nothing where nobody says it."""
    for each in config.__mro__:
        field = vars(each).get("__dataclass_fields__", {}).get(name)
        if field is not None and field.metadata:
            return field.metadata
    return {}


def as_declared(where: str, value: object, kind: object) -> object:
    """The value as its declared type; only what stays the same number is converted."""
    if isinstance(value, Config) and isinstance(value, tuple(part for part in parts(kind) if isinstance(part, type))):
        return value
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        return msgspec.convert(plain, kind)
    except (msgspec.ValidationError, OverflowError):
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
        raise ConfigError(f"{where} is {shown}, wanted {in_plain_words(kind)}") from None


def parts(kind: object) -> tuple[object, ...]:
    """The members of a union, or the type itself."""
    return (kind,) if get_origin(kind) in (Annotated, Literal, tuple, None) else get_args(kind)


def in_plain_words(kind: object) -> str:
    """What a declared type accepts, for an error message."""
    if get_origin(kind) is Annotated:
        return _limits_in_words(*get_args(kind))
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is tuple:
        items = get_args(kind)
        return f"a list{'' if Ellipsis in items else f' of {len(items)}'}, each {in_plain_words(items[0])}"
    if isinstance(kind, type):
        return {bool: "true or false", str: "text", NoneType: "none"}.get(kind, f"a {kind.__name__}")
    return ", or ".join(map(in_plain_words, parts(kind)))


def _limits_in_words(kind: type, limits: Meta) -> str:
    if kind is str:
        return limits.title or in_plain_words(kind)
    noun = "a whole number" if kind is int else "a number"
    if limits.gt is not None and limits.lt is not None:
        return f"{noun} between {limits.gt} and {limits.lt}"
    if limits.gt is not None:
        return f"{noun} above {limits.gt}"
    if limits.lt is not None:
        return f"{noun} from {limits.ge} to just below {limits.lt}"
    endless = limits.le in (LARGEST_WHOLE, LARGEST_NUMBER, None)
    return f"{noun}, {limits.ge} or more" if endless else f"{noun} from {limits.ge} to {limits.le}"


@contextmanager
def sizes_allowed() -> Iterator[None]:
    """Turn what an equation says about sizes into a ConfigError, while a layer is built."""
    try:
        yield
    except EquationError as error:
        raise ConfigError(str(error)) from None
