"""Which scaling law some runs determine: how many sizes and amounts of data it takes."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.equations.scaling import training_flops
from glassformer.errors import FitError

Law = Literal["full", "size", "data", "compute"]
LAW_WORDS: Mapping[Law, str] = MappingProxyType(
    {
        "full": "L = E + A/N^α + B/D^β",
        "size": "L = E + A/N^α",
        "data": "L = E + B/D^β",
        "compute": "L = E + A/C^a",
    }
)
SAME = 0.02  # sizes whose logarithms are closer than this count as one
MOST_ALIGNED = 0.975  # correlation of log N and log D above which their effects cannot be told apart


class SizedRun(Protocol):
    """A run as far as its size and its data go."""

    @property
    def parameters(self) -> float:
        """Parameters without embeddings."""
        ...

    @property
    def tokens(self) -> float:
        """Training tokens."""
        ...


def variables(law: Law, runs: Sequence[SizedRun]) -> Float[Tensor, "runs powers"]:
    """What the loss is a power of, for each run."""
    rows = {
        "full": lambda run: (run.parameters, run.tokens),
        "size": lambda run: (run.parameters,),
        "data": lambda run: (run.tokens,),
        "compute": lambda run: (training_flops(run.parameters, run.tokens),),
    }
    return torch.tensor([rows[law](run) for run in runs], dtype=torch.float64)


def choose_law(runs: Sequence[SizedRun], asked: Law | Literal["auto"], floor_fixed: bool) -> tuple[Law, str]:
    """The law asked for, or the largest one that the runs determine, and why; raises if they do not determine it."""
    lacking = {law: _lacks(runs, law, floor_fixed) for law in LAW_WORDS}
    if asked != "auto":
        if asked not in LAW_WORDS:
            raise FitError(f"law is {asked!r}, wanted auto or one of {', '.join(LAW_WORDS)}")
        if lacking[asked]:
            raise FitError(f"{_counted(runs)} do not determine {LAW_WORDS[asked]}: {lacking[asked]}")
        return asked, "the law that was asked for"
    if not lacking["full"]:
        return "full", "size and data vary independently, so the effect of each is known"
    one_size, one_length = (_distinct(runs, name) == 1 for name in ("parameters", "tokens"))
    reduced: Law = "data" if one_size else "size" if one_length else "compute"
    if lacking[reduced]:
        other = f"; for {LAW_WORDS[reduced]}, {lacking[reduced]}" if lacking[reduced] != lacking["full"] else ""
        raise FitError(f"{_counted(runs)} do not determine a scaling law: for {LAW_WORDS['full']}, "
                       f"{lacking['full']}{other}")  # fmt: skip
    holds = {
        "data": "it holds for this size only",
        "size": "it holds for this amount of data only",
        "compute": "it holds for runs that divide compute between size and data as these do",
        "full": "",
    }[reduced]
    return reduced, f"{LAW_WORDS['full']} is not determined: {lacking['full']}; {LAW_WORDS[reduced]} is, and {holds}"


def _lacks(runs: Sequence[SizedRun], law: Law, floor_fixed: bool) -> str:
    """What the runs lack to determine a law, in words; empty if nothing."""
    values = 2 if floor_fixed else 3  # of each variable: an exponent and a height, and the floor
    names = {"full": ("parameters", "tokens"), "size": ("parameters",), "data": ("tokens",), "compute": ()}[law]
    words = {"parameters": "sizes", "tokens": "amounts of data"}
    counts = {words[name]: _distinct(runs, name) for name in names}
    if law == "compute":
        counts = {"amounts of compute": _clusters([training_flops(run.parameters, run.tokens) for run in runs])}
    least = values + 1 + 2 * (law == "full")
    few = [f"{values} distinct {what} are needed, not {count}" for what, count in counts.items() if count < values]
    if len(runs) < least:
        few.append(f"{least} runs are needed, not {len(runs)}")
    if not few and law == "full" and _alignment(runs) > MOST_ALIGNED:
        few = ["size and data grow together, so their effects cannot be told apart: train some sizes on other amounts"]
    return " and ".join(few)


def _distinct(runs: Sequence[SizedRun], name: str) -> int:
    values = [run.parameters if name == "parameters" else run.tokens for run in runs]
    return _clusters(values)


def _clusters(values: Sequence[float]) -> int:
    """How many values differ by more than a little."""
    found, last = 0, -math.inf
    for value in sorted(values):
        if math.log(value) - last > SAME:
            found, last = found + 1, math.log(value)
    return found


def _alignment(runs: Sequence[SizedRun]) -> float:
    """The absolute correlation of log N and log D."""
    x = variables("full", runs).log()
    return float(torch.corrcoef(x.T)[0, 1].abs())


def _counted(runs: Sequence[SizedRun]) -> str:
    sizes, amounts = (_distinct(runs, name) for name in ("parameters", "tokens"))
    return (
        f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} with {sizes} distinct {'size' if sizes == 1 else 'sizes'} "
        f"and {amounts} distinct {'amount' if amounts == 1 else 'amounts'} of data"
    )
