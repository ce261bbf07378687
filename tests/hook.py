"""The hook that checks shapes and types at run time, quick enough for every call of a suite.

What a check finds follows from the types, shapes and words that a function is given and returns. So each function is
checked once for each combination of them, and then called directly: that adds a few microseconds where a check adds ten
times as many.
"""

import inspect
from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

import jaxtyping
from torch import Tensor

F = TypeVar("F", bound=Callable[..., object])
LONG = 64
BY_TYPE: set[type] = set()
jaxtyped = jaxtyping.jaxtyped


def kind_of(value: object) -> Hashable:
    """All that a check of a value can depend on: numbers and objects count by their type, texts by what they say."""
    kind = type(value)
    if kind in BY_TYPE:
        return kind
    if isinstance(value, Tensor):
        return kind, value.dtype, value.shape
    if isinstance(value, str):
        return kind, value
    if isinstance(value, tuple | list):
        return kind, *map(kind_of if len(value) < LONG else type, value)
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(kind_of, value))
    if isinstance(value, dict):
        return kind, *((kind_of(key), kind_of(item)) for key, item in value.items())
    BY_TYPE.add(kind)
    return kind


def remembering(function: F, checker: Callable[[F], F]) -> F:
    """A function that is checked whenever it is given or returns a combination for the first time."""
    checked, returned = jaxtyped(function, typechecker=checker), []
    check_returned = jaxtyped(wraps(function)(lambda *_, **__: returned.pop()), typechecker=checker)
    given, seen = set(), set()

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        key = (*map(kind_of, args), kind_of(kwargs)) if kwargs else (*map(kind_of, args),)
        if key not in given:
            value = checked(*args, **kwargs)
            given.add(key)
            seen.add((key, kind_of(value)))
            return value
        value = function(*args, **kwargs)
        both = key, kind_of(value)
        if both not in seen:
            returned.append(value)
            check_returned(*args, **kwargs)
            seen.add(both)
        return value

    return call


def hook(function: object = None, *, typechecker: Callable[[F], F]) -> object:
    """What `jaxtyping.jaxtyped` does, for functions with a memory."""
    if function is None:
        return lambda function: hook(function, typechecker=typechecker)
    if inspect.isfunction(function):
        return remembering(function, typechecker)
    return jaxtyped(function, typechecker=typechecker)
