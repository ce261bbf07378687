"""The hook remembers what it checked, and refuses what it has not."""

from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from tests import check
from tests.hook import hook

MATRIX, ROW = torch.zeros(2, 3), torch.zeros(3)


def hooked(function: Callable[..., object]) -> Callable[..., object]:
    """A function as the import hook decorates it."""
    return hook(typechecker=check)(function)


def test_wrong_arguments_are_refused_however_often_right_ones_were_given() -> None:
    @hooked
    def scale(x: Float[Tensor, "n d"], weight: Float[Tensor, " d"]) -> Float[Tensor, "n d"]:
        return x * weight

    for _ in range(3):
        assert scale(MATRIX, ROW).shape == scale(MATRIX, weight=ROW).shape == (2, 3)
        for wrong in (torch.zeros(1), ROW.long(), torch.zeros(1, 3), [0.0], "words", None, 1.0):
            with pytest.raises(TypeCheckError):
                scale(MATRIX, wrong)
            with pytest.raises(TypeCheckError):
                scale(x=MATRIX, weight=wrong)


def test_a_wrong_value_is_refused_when_it_comes_from_arguments_that_were_checked() -> None:
    values = [MATRIX, MATRIX, MATRIX.T, MATRIX, MATRIX.long(), None]

    @hooked
    def turn(x: Float[Tensor, "n d"], mode: str) -> Float[Tensor, "n d"]:
        return values.pop(0)

    assert turn(MATRIX, "a") is turn(MATRIX, "a") is MATRIX
    for wrong in (True, False, True, True):
        if wrong:
            with pytest.raises(TypeCheckError, match="return value"):
                turn(MATRIX, "a")
        else:
            assert turn(MATRIX, "a") is MATRIX
    assert values == []


def test_what_a_container_holds_is_looked_at() -> None:
    @hooked
    def first(pair: tuple[Float[Tensor, " n"], Float[Tensor, " n"]], names: dict[str, int], layers: list[int]) -> None:
        """Nothing."""

    for _ in range(2):
        first((ROW, ROW), {"a": 1}, [1])
        for wrong in (
            ((ROW, torch.zeros(4)), {"a": 1}, [1]),
            ((ROW, ROW), {"a": "b"}, [1]),
            ((ROW, ROW), {1: 1}, [1]),
            ((ROW, ROW), {"a": 1}, ["c"]),
        ):
            with pytest.raises(TypeCheckError):
                first(*wrong)


def test_a_function_is_called_once_for_each_call() -> None:
    calls = []

    @hooked
    def count(x: Float[Tensor, " n"]) -> Float[Tensor, " m"]:
        calls.append(x)
        return torch.zeros(len(calls))

    assert [len(count(ROW)) for _ in range(4)] == [1, 2, 3, 4] == [*range(1, len(calls) + 1)]
