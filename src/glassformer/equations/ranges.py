"""Conditions on arguments, for `where=` of an equation: sizes, rates, logits, probabilities, dtypes."""

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real

import torch
from torch import Tensor

Require = Callable[[bool, str, object, str], None]
Condition = Callable[..., None]


def at_least(least: int) -> Condition:
    """A condition: each argument is a whole number, no smaller than `least`."""

    def holds(require: Require, /, **sizes: object) -> None:
        for symbol, size in sizes.items():
            fits = isinstance(size, Integral) and int(size) >= least
            require(fits, symbol, repr(size), f"a whole number, at least {least}")

    return holds


whole = at_least(1)


def optional(condition: Condition) -> Condition:
    """The same condition, for arguments that may be None."""

    def holds(require: Require, /, **arguments: object) -> None:
        condition(require, **{symbol: value for symbol, value in arguments.items() if value is not None})

    return holds


def positive(require: Require, /, **numbers: object) -> None:
    """Each is a finite number above zero."""
    for symbol, number in numbers.items():
        fits = isinstance(number, Real) and 0 < float(number) < math.inf
        require(fits, symbol, repr(number), "a number above zero")


def not_negative(require: Require, /, **numbers: object) -> None:
    """Each is a finite number, zero or more."""
    for symbol, number in numbers.items():
        fits = isinstance(number, Real) and 0 <= float(number) < math.inf
        require(fits, symbol, repr(number), "a number, zero or more")


def below_one(require: Require, /, **fractions: object) -> None:
    """Each is a number from 0 up to, not including, 1."""
    for symbol, fraction in fractions.items():
        fits = isinstance(fraction, Real) and 0 <= float(fraction) < 1
        require(fits, symbol, repr(fraction), "at least 0, less than 1")


def sizes(require: Require, /, **shapes: object) -> None:
    """Each is a shape: a sequence of whole numbers, one or more each."""
    for symbol, shape in shapes.items():
        fits = isinstance(shape, Sequence) and all(isinstance(size, Integral) and int(size) >= 1 for size in shape)
        require(fits, symbol, repr(shape), "whole numbers, 1 or more each")


def float_dtype(require: Require, /, **dtypes: object) -> None:
    """Each is a floating-point dtype."""
    for symbol, dtype in dtypes.items():
        real = isinstance(dtype, torch.dtype) and dtype.is_floating_point
        require(real, symbol, dtype, "a float type such as torch.float32")


def same_dtype(require: Require, /, **tensors: Tensor | None) -> None:
    """All tensors have the dtype of the first; optional ones may be missing."""
    (first, like), *others = tensors.items()
    assert like is not None
    for symbol, tensor in others:
        if tensor is not None:
            require(tensor.dtype == like.dtype, symbol, tensor.dtype, f"{like.dtype}, the dtype of {first}")


def not_empty(require: Require, /, **tensors: Tensor) -> None:
    """Each has at least one entry along its last axis."""
    for symbol, tensor in tensors.items():
        require(tensor.shape[-1] > 0, symbol, f"of shape {list(tensor.shape)}", "at least one number in each vector")


def finite(require: Require, /, **tensors: Tensor) -> None:
    """None holds NaN or infinity."""
    for symbol, tensor in tensors.items():
        require(bool(tensor.isfinite().all()), symbol, "NaN or infinite in some entries", "finite numbers")


def valid_logits(require: Require, /, **tensors: Tensor) -> None:
    """Each can be given to softmax: at least one logit, and each finite or −∞."""
    for symbol, z in tensors.items():
        require(z.shape[-1] > 0, symbol, f"of shape {list(z.shape)}", "at least one logit along the last axis")
        require(bool((z < torch.inf).all()), symbol, "NaN or infinite in some entries", "finite logits or −∞")


def require_ids(require: Require, ids: Tensor, size: int, table: str) -> None:
    """Raise unless ids are within a table of this size."""
    if ids.numel():
        low, high = int(ids.min()), int(ids.max())
        got = f"between {low} and {high}"
        require(low >= 0 and high < size, "ids", got, f"between 0 and {size - 1}, the ids of {table}")
