"""Fast forms on a CPU: products, dropout and attention agree with torch or the formula, and so do their gradients."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close

from glassformer import torch_private
from glassformer.equations import cpu_kernels
from glassformer.equations.attention import attention, dropout_attention
from glassformer.equations.cpu_kernels import affine
from glassformer.equations.regularization import dropout, dropout_mask
from tests.equations.drawing import Draw

CASES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEAR: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}  # sums of a few numbers near one, in another order
MANY = 200_000
pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, torch_private.ONEDNN_LINEAR), reason="torch without the linear layer of oneDNN"
)


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.Size]]:
    """Products of any size by oneDNN, whatever the processor, and the shapes of those that were computed."""
    made: list[torch.Size] = []

    def noted(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        made.append(x.shape)
        return torch_private.onednn_linear(x, weight, bias)

    monkeypatch.setattr(cpu_kernels, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(cpu_kernels, "onednn_linear", noted)
    monkeypatch.setattr(cpu_kernels, "LEAST_PRODUCT", 0)
    yield made


@CASES
@given(data=st.data())
def test_outputs_and_gradients_are_those_of_torch(data: st.DataObject, calls: list[torch.Size]) -> None:
    draw = Draw(data)
    inputs, outputs = draw.integer(1, 20), draw.integer(1, 20)
    biased, flipped = draw.choose(True, False), draw.choose(True, False)
    x = torch.randn(*draw.lead(), draw.integer(1, 9), inputs, requires_grad=True)
    weight = torch.randn(outputs, inputs).T if flipped else torch.randn(inputs, outputs)
    W, b = weight.requires_grad_(), torch.randn(outputs, requires_grad=True) if biased else None
    calls.clear()
    ours, theirs = affine(x, W, b), functional.linear(x, W.T, b)
    wanted = [x, W] if b is None else [x, W, b]
    seed = torch.randn_like(ours)
    assert_close(ours, theirs, **NEAR)
    assert_close(torch.autograd.grad(ours, wanted, seed), torch.autograd.grad(theirs, wanted, seed), **NEAR)
    assert len(calls) == 3


def test_only_the_gradients_that_are_needed_are_computed(calls: list[torch.Size]) -> None:
    x, W = torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)
    affine(x, W).sum().backward()
    assert W.grad is not None and len(calls) == 2


def test_gradients_of_gradients_are_those_of_torch() -> None:
    x, W = torch.randn(4, 3, requires_grad=True), torch.randn(3, 5, requires_grad=True)

    def penalty(y: torch.Tensor) -> torch.Tensor:
        (x_bar,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return x_bar.square().sum()

    found, wanted = (torch.autograd.grad(penalty(y), W)[0] for y in (affine(x, W), functional.linear(x, W.T)))
    assert_close(found, wanted, **NEAR)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_stay_with_torch(dtype: torch.dtype, calls: list[torch.Size]) -> None:
    x, W = torch.randn(4, 3, dtype=dtype), torch.randn(3, 5, dtype=dtype)
    assert torch.equal(affine(x, W), functional.linear(x, W.T))
    with torch.autocast("cpu", torch.bfloat16):
        assert affine(x.float(), W.float()).dtype == torch.bfloat16
    assert not calls


@pytest.mark.parametrize("p", [0.001, 0.005, 0.1, 0.2, 0.5, 0.9])
def test_the_fraction_dropped_is_the_probability(p: float) -> None:
    m = dropout_mask(torch.zeros(MANY), p)
    assert ((m == 0) | (m == 1)).all()
    assert (m == 0).double().mean().item() == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / MANY) + 2**-17)


def test_every_bit_is_drawn_once() -> None:
    m = dropout_mask(torch.zeros(4, MANY), 0.5)
    assert (m.corrcoef() - torch.eye(4)).abs().max() < 5 / math.sqrt(MANY), "rows"
    lagged = torch.stack([m.flatten()[lag : lag + MANY] for lag in range(9)])
    assert (lagged.corrcoef() - torch.eye(9)).abs().max() < 5 / math.sqrt(MANY), "neighbors"


def test_dropout_scales_what_is_kept_and_its_gradient() -> None:
    x = torch.randn(7, 5, requires_grad=True)
    torch.manual_seed(3)
    y = dropout(x, 0.25)
    torch.manual_seed(3)
    m = dropout_mask(x, 0.25) / 0.75
    assert_close(y, x * m)
    assert_close(torch.autograd.grad(y.sum(), x)[0], m)


@CASES
@given(data=st.data())
def test_attention_with_dropout_is_its_formula_with_the_same_draws(data: st.DataObject) -> None:
    draw = Draw(data)
    heads, queries, head_dim = draw.integer(1, 3), draw.integer(1, 150), draw.integer(1, 6)
    causal, grouped = draw.choose(True, False), draw.choose(True, False)
    keys = queries if causal else draw.integer(1, 150)
    q = torch.randn(2, heads, queries, head_dim)
    k, v = torch.randn(2, 1 if grouped else heads, keys, head_dim), torch.randn(2, 1 if grouped else heads, keys, 3)
    inputs, p, scale = [t.requires_grad_() for t in (q, k, v)], 0.3, draw.choose(None, 0.7)
    torch.manual_seed(draw.integer(0, 99))
    seed, state = torch.randn(2, heads, queries, 3), torch.get_rng_state()
    ours = dropout_attention(q, k, v, causal=causal, scale=scale, p=p)
    torch.set_rng_state(state)
    theirs = dropout_attention.fn(q, k, v, None, None, causal, scale, None, p)
    assert_close(ours, theirs, **NEAR)
    found, wanted = (torch.autograd.grad(o, inputs, seed) for o in (ours, theirs))
    assert_close(found, wanted, **NEAR)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    dropout_attention(q, k, v, causal=causal, scale=scale, p=p)
    assert torch.equal(after, torch.get_rng_state()), "both draw as many numbers"


def test_attention_without_a_chance_of_dropping_is_attention() -> None:
    q, k, v = (torch.randn(2, 3, 70, 4) for _ in range(3))
    assert_close(dropout_attention(q, k, v, causal=True), attention(q, k, v, causal=True), **NEAR)
