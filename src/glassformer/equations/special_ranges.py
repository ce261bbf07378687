"""Conditions that few equations need: even dimensions, squares, counts, distributions, named options."""

from numbers import Integral

import torch
from torch import Tensor

from glassformer.equations.ranges import Condition, Require


def one_of(*options: str) -> Condition:
    """A condition: each argument is one of these words."""

    def holds(require: Require, /, **words: object) -> None:
        for symbol, word in words.items():
            require(word in options, symbol, repr(word), f"{', '.join(options[:-1])} or {options[-1]}")

    return holds


def even(require: Require, /, **dims: object) -> None:
    """Each is a dimension that splits into pairs."""
    for symbol, dim in dims.items():
        pairs = isinstance(dim, Integral) and int(dim) >= 2 and int(dim) % 2 == 0
        require(pairs, symbol, repr(dim), "an even number, at least 2, to split into pairs")


def squares(require: Require, /, **tensors: Tensor) -> None:
    """Averages of squares: none is negative, none is NaN."""
    for symbol, tensor in tensors.items():
        holds = bool((tensor >= 0).all())
        require(holds, symbol, "negative or NaN in some entries", "averages of squares, zero or more")


def counts(require: Require, /, **tensors: Tensor) -> None:
    """Each holds numbers of examples: none is negative."""
    for symbol, tensor in tensors.items():
        require(bool((tensor >= 0).all()), symbol, "negative in some entries", "counts, zero or more")


def distribution(require: Require, /, **tensors: Tensor) -> None:
    """Each holds probabilities: none negative, summing to one as far as the dtype can tell."""
    for symbol, p in tensors.items():
        require(p.shape[-1] > 0, symbol, f"of shape {list(p.shape)}", "at least one probability along the last axis")
        require(bool((p >= 0).all()), symbol, "negative or NaN in some entries", "probabilities, zero or more")
        sums = p.double().sum(-1)
        near = (sums - 1).abs() <= max(1e-3, 2 * torch.finfo(p.dtype).eps)
        got = f"distributions that sum to {sums[~near].tolist()[:3]}"
        require(bool(near.all()), symbol, got, "distributions that sum to one")
