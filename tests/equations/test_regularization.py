"""Dropout: frequencies and means over many draws, repeatable draws, exact replay, bad probabilities."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.equations.regularization import apply_dropout, dropout, dropout_mask
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.equations.drawing import Draw

CASES = settings(max_examples=50, deadline=None)
MANY = 200_000


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.001, 0.005, 0.1, 0.2, 0.5, 0.9])
def test_the_fraction_dropped_is_the_probability(p: float, dtype: torch.dtype) -> None:
    m = dropout_mask(torch.zeros(MANY, dtype=dtype), p, torch.Generator().manual_seed(0))
    assert m.dtype == dtype and ((m == 0) | (m == 1)).all()
    spread = math.sqrt(p * (1 - p) / MANY)
    assert (m == 0).double().mean().item() == pytest.approx(p, abs=5 * spread)


def test_every_bit_is_drawn_once() -> None:
    m = dropout_mask(torch.zeros(4, MANY), 0.5)
    assert (m.corrcoef() - torch.eye(4)).abs().max() < 5 / math.sqrt(MANY), "rows"
    lagged = torch.stack([m.flatten()[lag : lag + MANY] for lag in range(9)])
    assert (lagged.corrcoef() - torch.eye(9)).abs().max() < 5 / math.sqrt(MANY), "neighbors"


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_mean_is_kept(p: float) -> None:
    y = dropout(torch.full((MANY,), 3.0), p, torch.Generator().manual_seed(0))
    assert y.mean().item() == pytest.approx(3.0, abs=5 * 3 * math.sqrt(p / (1 - p) / MANY))
    kept = y[y != 0]
    assert_close(kept, torch.full_like(kept, 3 / (1 - p)))


def test_what_is_kept_is_scaled_and_so_is_its_gradient() -> None:
    x = torch.randn(7, 5, requires_grad=True)
    torch.manual_seed(3)
    y = dropout(x, 0.25)
    torch.manual_seed(3)
    m = dropout_mask(x, 0.25) / 0.75
    assert_close(y, x * m)
    assert_close(torch.autograd.grad(y.sum(), x)[0], m)


@CASES
@given(data=st.data())
def test_the_same_generator_gives_the_same_result(data: st.DataObject) -> None:
    draw = Draw(data)
    x, seed = draw.normal(*draw.lead(), 40), draw.integer(0, 10**6)
    first, second = (dropout(x, 0.5, torch.Generator().manual_seed(seed)) for _ in range(2))
    assert torch.equal(first, second)
    generator = torch.Generator().manual_seed(seed)
    m = dropout_mask(x, 0.5, generator)
    assert torch.equal(first, apply_dropout(x, m, 0.5))
    assert not torch.equal(m, dropout_mask(x, 0.5, generator)), "the next draw is another one"


def test_without_a_generator_torch_s_own_is_used() -> None:
    x = torch.randn(50)
    torch.manual_seed(3)
    first = dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.5))
    assert not torch.equal(first, dropout(x, 0.5))


def test_a_rate_of_zero_changes_nothing() -> None:
    x = torch.randn(50)
    assert torch.equal(dropout(x, 0.0), x)


@pytest.mark.parametrize("given_one", [True, False])
def test_replay_draws_the_same_numbers(given_one: bool) -> None:
    x = torch.randn(4, 50, dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(1) if given_one else None
    with Tape() as tape:
        y = dropout(dropout(x, 0.5, generator), 0.25, generator)
    for deep in (False, True):
        assert torch.equal(tape.replay(deep), y)
    seed = torch.randn(4, 50, dtype=torch.float64)
    (by_autograd,) = torch.autograd.grad(y, x, seed)
    for deep in (False, True):
        assert_close(tape.reverse(seed, deep=deep)[x], by_autograd)


@pytest.mark.parametrize("p", [1.0, -0.1, 1.5, math.nan])
def test_bad_probabilities_are_named(p: float) -> None:
    x = torch.ones(3)
    for equation, arguments in ((dropout, (x,)), (dropout_mask, (x,)), (apply_dropout, (x, x))):
        with pytest.raises(EquationError, match=f"^{equation.name}: p is {p}, wanted at least 0, less than 1"):
            equation(*arguments, p)


def test_other_bad_input_is_named() -> None:
    with pytest.raises(EquationError, match=r"^dropout: x has type int64, wanted float"):
        dropout(torch.ones(3).long(), 0.5)
    with pytest.raises(EquationError, match=r"^dropout_mask: x is of type int64, wanted type float"):
        dropout_mask(torch.ones(3).long(), 0.5)
    with pytest.raises(EquationError, match=r"^apply_dropout: m has shape \[2\], wanted \[\*shape\]"):
        apply_dropout(torch.ones(3), torch.ones(2), 0.5)
