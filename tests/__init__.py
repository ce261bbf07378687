"""Tests, and the type checker that watches the library while they run."""

import inspect
from collections.abc import Callable
from typing import TypeVar

import jaxtyping
from beartype import BeartypeConf, beartype

from tests.hook import hook

jaxtyping.jaxtyped = hook  # what --jaxtyping-packages decorates each function with

F = TypeVar("F", bound=Callable[..., object])


def check(function: F) -> F:
    """Check arguments by their annotations, whole numbers welcome where real ones are asked for.

    An equation's own check, and what it hands its `require` to, is left alone: doubting arguments is its work.
    """
    if function.__name__.endswith("_check") or "require" in inspect.signature(function).parameters:
        return function
    return beartype(function, conf=BeartypeConf(is_pep484_tower=True))
