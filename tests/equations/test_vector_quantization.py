"""Quantization: worked examples, codes and back, the straight-through rule, PSNR and guidance."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.equations.sampling import classifier_free_guidance
from glassformer.equations.vector_quantization import (
    bound_to_levels,
    code_ids,
    code_levels,
    normalize_levels,
    peak_signal_to_noise,
    round_straight_through,
)
from glassformer.errors import EquationError
from glassformer.recording import Tape

LEVELS = st.lists(st.integers(2, 6), min_size=1, max_size=4)


def test_a_vector_becomes_a_code_by_hand() -> None:
    z = torch.tensor([[-9.0, 0.0, 9.0]])
    u = bound_to_levels(z, (3, 5, 2))
    q = round_straight_through(u)
    assert q.tolist() == [[0.0, 2.0, 1.0]]
    assert code_ids(q, (3, 5, 2)).tolist() == [0 * 1 + 2 * 3 + 1 * 15]
    assert normalize_levels(q, (3, 5, 2)).tolist() == [[-1.0, 0.0, 1.0]]


@settings(max_examples=50, deadline=None)
@given(levels=LEVELS)
def test_every_code_has_its_own_levels(levels: list[int]) -> None:
    ids = torch.arange(math.prod(levels))
    q = code_levels(ids, levels)
    assert torch.equal(code_ids(q, levels), ids)
    assert len({tuple(row) for row in q.tolist()}) == len(ids)
    assert (q >= 0).all() and (q.amax(0) == torch.tensor(levels) - 1).all()


@settings(max_examples=50, deadline=None)
@given(levels=LEVELS, seed=st.integers(0, 2**31))
def test_any_vector_has_a_code_and_the_nearest_one(levels: list[int], seed: int) -> None:
    z = 5 * torch.randn(20, len(levels), generator=torch.Generator().manual_seed(seed)).double()
    u = bound_to_levels(z, levels)
    q = round_straight_through(u)
    assert (code_ids(q, levels) < math.prod(levels)).all()
    every = code_levels(torch.arange(math.prod(levels)), levels, torch.float64)
    assert_close((u - q).norm(dim=-1), (u[:, None] - every).norm(dim=-1).amin(-1))


def test_the_gradient_passes_straight_through_by_rule_and_by_autograd() -> None:
    u = torch.tensor([0.2, 1.7, 3.5], dtype=torch.float64, requires_grad=True)
    with Tape() as tape:
        q = round_straight_through(u)
    assert q.tolist() == [0.0, 2.0, 4.0]
    seed = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    assert torch.equal(tape.reverse(seed)[u], seed)
    assert torch.equal(torch.autograd.grad(q, u, seed)[0], seed)


def test_psnr_by_hand() -> None:
    x = torch.zeros(100)
    assert peak_signal_to_noise(x + 0.1, x).item() == pytest.approx(20.0)
    assert peak_signal_to_noise(x + 25.5, x, 255.0).item() == pytest.approx(20.0)
    assert peak_signal_to_noise(x, x).item() == math.inf


def test_guidance_of_one_changes_nothing_and_of_zero_forgets_the_prompt() -> None:
    z, empty = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    assert torch.equal(classifier_free_guidance(z, empty, 1.0), z)
    assert torch.equal(classifier_free_guidance(z, empty, 0.0), empty)
    assert classifier_free_guidance(z, empty, 3.0).tolist() == [2.0, -1.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: bound_to_levels(torch.zeros(3), (2, 2)), r"z is of shape \[3\], wanted 2 entries in each vector"),
        (lambda: bound_to_levels(torch.zeros(2), (2, 1)), r"levels is \(2, 1\), wanted whole numbers, 2 or more"),
        (lambda: normalize_levels(torch.zeros(2), ()), r"levels is \(\), wanted whole numbers"),
        (lambda: code_ids(torch.tensor([2.0]), (2,)), "q is not a level in some entries"),
        (lambda: code_ids(torch.tensor([0.5]), (2,)), "q is not a level in some entries"),
        (lambda: code_levels(torch.tensor([6]), (2, 3)), "ids is between 6 and 6, wanted between 0 and 5"),
        (lambda: peak_signal_to_noise(torch.zeros(2), torch.zeros(2), 0.0), "peak is 0.0, wanted a number above"),
        (lambda: classifier_free_guidance(torch.zeros(2), torch.zeros(2), -1.0), "s is -1.0, wanted a number, zero"),
    ],
)
def test_bad_input_is_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        wrong()
