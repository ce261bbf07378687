"""The values of settings: converted to their declared types, described in words, and written as TOML."""

import os
from dataclasses import MISSING, fields
from types import NoneType
from typing import Literal, get_args

import msgspec
import numpy as np
import tomli_w

from glassformer.errors import ConfigError
from glassformer.layers.config import field_types, in_plain_words, parts
from glassformer.layers.rotary import ROPE_SCALINGS, RopeScaling

NO_VALUE = "none"  # TOML has no word for it
VALUE_LENGTH = 60  # characters of a wrong value in an error


def in_words(kind: object) -> str:
    """The values that a declared type accepts, as TOML has them."""
    table = f"a table with a kind, one of {', '.join(ROPE_SCALINGS)}"
    words = {RopeScaling: table, NoneType: f'"{NO_VALUE}"'}
    return ", or ".join(words[part] if part in words else in_plain_words(part) for part in parts(kind))


def converted(key: str, value: object, kind: object) -> object:
    """A value of TOML as its key's type, or an error that says what was wanted; nothing is rounded or guessed."""
    optional = NoneType in get_args(kind)
    if optional and value == NO_VALUE:
        return None
    wanted = get_args(kind)[0] if optional else kind
    if wanted is RopeScaling and isinstance(value, dict):
        return _scaling(key, value)
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        raise ConfigError(f"{key} is {shown(value)}, wanted {in_words(kind)}") from None


def as_toml(value: object) -> object:
    """A value as TOML can hold it."""
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
    """A value in an error, shortened."""
    text = printable(toml_value(value))
    return text if len(text) <= VALUE_LENGTH else text[:VALUE_LENGTH] + "…"


def printable(text: str) -> str:
    """Text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _pair(name: str, value: object) -> str:
    """A key and its value; the key is quoted where TOML requires it."""
    return f"{tomli_w.dumps({name: 0})[: -len(' = 0') - 1]} = {toml_value(value)}"


def _scaling(key: str, table: dict[str, object]) -> RopeScaling:
    """A table with a kind as the class of that kind."""
    kind = converted(f"{key}.kind", table.get("kind", ""), Literal[tuple(ROPE_SCALINGS)])
    scaling = ROPE_SCALINGS[str(kind)]
    types = field_types(scaling)
    unknown = [name for name in table if name not in types and name != "kind"]
    if unknown:
        raise ConfigError(f"{key}: the kind {kind} has no {shown(unknown[0])}, it has {', '.join(types)}")
    for field in fields(scaling):
        if field.name not in table and field.default is MISSING:
            raise ConfigError(f"{key}: the kind {kind} lacks {field.name}, wanted {in_words(types[field.name])}")
    return scaling(**{name: converted(f"{key}.{name}", table[name], types[name]) for name in table if name != "kind"})
