"""Conditions on arguments, in the words an error needs: sizes, rates, probabilities, dtypes."""

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real

import torch
from torch import Tensor

Require = Callable[[bool, str, object, str], None]


def whole(require: Require, least: int = 1, /, **sizes: object) -> None:
    """Each is a whole number, no smaller than `least`."""
    for symbol, size in sizes.items():
        fits = isinstance(size, Integral) and int(size) >= least
        require(fits, symbol, repr(size), f"a whole number, at least {least}")


def even(require: Require, /, **widths: object) -> None:
    """Each is a width that splits into pairs."""
    for symbol, width in widths.items():
        pairs = isinstance(width, Integral) and int(width) >= 2 and int(width) % 2 == 0
        require(pairs, symbol, repr(width), "an even number, at least 2, to split into pairs")


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


def below_one(require: Require, /, **shares: object) -> None:
    """Each is a share of at least nothing and less than everything."""
    for symbol, share in shares.items():
        fits = isinstance(share, Real) and 0 <= float(share) < 1
        require(fits, symbol, repr(share), "at least 0, less than 1")


def axes(require: Require, shape: object) -> None:
    """A shape is a sequence of whole numbers, one or more each."""
    fits = isinstance(shape, Sequence) and all(isinstance(size, Integral) and int(size) >= 1 for size in shape)
    require(fits, "shape", repr(shape), "whole numbers, 1 or more each")


def float_type(require: Require, dtype: object) -> None:
    """The number type asked for holds real numbers."""
    real = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    require(real, "dtype", dtype, "a float type such as torch.float32")


def finite(require: Require, /, **tensors: Tensor) -> None:
    """None holds NaN or infinity."""
    for symbol, tensor in tensors.items():
        require(bool(tensor.isfinite().all()), symbol, "NaN or infinite in places", "finite numbers")


def squares(require: Require, /, **tensors: Tensor) -> None:
    """Averages of squares: none is negative, none is NaN."""
    for symbol, tensor in tensors.items():
        require(bool((tensor >= 0).all()), symbol, "negative or NaN in places", "averages of squares, zero or more")


def same_dtype(require: Require, /, **tensors: Tensor | None) -> None:
    """All tensors have the dtype of the first; optional ones may be missing."""
    (first, like), *others = tensors.items()
    assert like is not None
    for symbol, tensor in others:
        if tensor is not None:
            require(tensor.dtype == like.dtype, symbol, tensor.dtype, f"{like.dtype}, the type of {first}")
