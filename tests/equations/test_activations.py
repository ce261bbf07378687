"""Activations against torch, at the edges, and their characteristic properties."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equations.activations import gelu, gelu_tanh, relu, sigmoid, silu, squared_relu, tanh
from glassformer.equations.compiled_gelu import CompiledGelu
from glassformer.equations.gated import swiglu
from tests.equations.drawing import Draw

TORCH = {
    sigmoid: torch.sigmoid,
    tanh: torch.tanh,
    relu: functional.relu,
    squared_relu: lambda x: functional.relu(x) ** 2,
    gelu: functional.gelu,
    gelu_tanh: lambda x: functional.gelu(x, approximate="tanh"),
    silu: functional.silu,
}
EACH = pytest.mark.parametrize("activation", TORCH, ids=[a.name for a in TORCH])


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_plain_equals_torch(activation: object, dtype: torch.dtype) -> None:
    x = torch.linspace(-30, 30, 601, dtype=dtype)
    assert_close(activation.fn(x), TORCH[activation](x))  # type: ignore[attr-defined]


@EACH
def test_extremes_stay_finite_and_nan_is_not_hidden(activation: object) -> None:
    ends = activation.fn(torch.tensor([-1e4, 1e4]))  # type: ignore[attr-defined]
    assert not ends.isnan().any()
    assert activation.fn(torch.tensor([torch.nan])).isnan().all()  # type: ignore[attr-defined]


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_symmetries(data: st.DataObject) -> None:
    x = Draw(data).normal(8)
    assert_close(sigmoid(-x), 1 - sigmoid(x))
    assert_close(tanh(-x), -tanh(x))
    assert_close(tanh(x), 2 * sigmoid(2 * x) - 1)
    assert_close(gelu(x) - gelu(-x), x)
    assert_close(silu(x) - silu(-x), x)
    assert_close(relu(x) - relu(-x), x)
    assert_close(swiglu(x, x), silu(x) * x)


def test_keep_probability_of_gelu_rises_with_x() -> None:
    """The share of x that passes is the normal distribution function, rising from 0 to 1."""
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    share = (gelu(x) / x)[x != 0]
    assert (share.diff() > 0).all() and share[0] < 0.01 and share[-1] > 0.99


def test_stacked_linear_maps_collapse_without_a_bend() -> None:
    """R37: two linear layers are one; with a bend between them they are not."""
    x, first, second = torch.randn(9, 3), torch.randn(3, 5), torch.randn(5, 2)
    assert_close(x @ first @ second, x @ (first @ second))
    assert not torch.allclose(relu(x @ first) @ second, x @ (first @ second))


@pytest.mark.parametrize("tanh", [False, True])
@settings(max_examples=20, deadline=None)
@given(scale=st.sampled_from([0.01, 1.0, 30.0, 1e4]), seed=st.integers(0, 99))
def test_gelu_for_the_compiler_equals_gelu_far_below_half_precision(tanh: bool, scale: float, seed: int) -> None:
    x = (torch.randn(1000, generator=torch.Generator().manual_seed(seed)) * scale).requires_grad_()
    exact = x.detach().double().requires_grad_()
    found = CompiledGelu.apply(x, tanh)
    right = functional.gelu(exact, approximate="tanh" if tanh else "none")
    assert_close(found.double(), right, rtol=1e-6, atol=1e-6)
    (slope,) = torch.autograd.grad(found.sum(), x)
    assert_close(slope.double(), torch.autograd.grad(right.sum(), exact)[0], rtol=1e-6, atol=1e-5)
