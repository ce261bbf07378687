"""Norms against torch and their invariances."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equations.normalization import layer_norm, rms_norm
from glassformer.equations.other_norms import batch_norm, layer_norm_outside
from glassformer.errors import EquationError
from tests.equations.drawing import Draw


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_norms_equal_torch(data: st.DataObject) -> None:
    draw = Draw(data)
    d = draw.integer(1, 9)
    x, gamma, beta = draw.normal(*draw.lead(), d), draw.normal(d), draw.normal(d)
    assert_close(layer_norm.fn(x, gamma, beta, 1e-3), functional.layer_norm(x, (d,), gamma, beta, 1e-3))
    assert_close(rms_norm.fn(x, gamma, 1e-3), functional.rms_norm(x, (d,), gamma, 1e-3))
    rows = draw.normal(draw.integer(2, 5), d)
    wanted = functional.batch_norm(rows, None, None, gamma, beta, training=True, eps=1e-3)
    assert_close(batch_norm.fn(rows, gamma, beta, 1e-3), wanted)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_invariances(data: st.DataObject) -> None:
    """Layer norm ignores shift and scale, RMS norm ignores scale; centered rows make the two equal."""
    draw = Draw(data)
    d = draw.integer(2, 9)
    x, one, zero = draw.normal(3, d), torch.ones(d).double(), torch.zeros(d).double()
    normed = layer_norm(x, one, zero, 0.0)
    assert_close(layer_norm(5 * x + 3, one, zero, 0.0), normed)
    assert_close(rms_norm(5 * x, one, 0.0), rms_norm(x, one, 0.0))
    assert_close(normed.mean(-1), torch.zeros(3).double())
    assert_close(normed.var(-1, correction=0), torch.ones(3).double())
    centered = x - x.mean(-1, keepdim=True)
    assert_close(rms_norm(centered, one, 0.0), normed)
    assert_close(layer_norm_outside(x, one, zero, 0.0), normed)


def test_layer_norm_over_two_features_keeps_only_a_sign() -> None:
    x = torch.tensor([[170.0, 65.0], [160.0, 90.0], [1.0, 2.0]])
    normed = layer_norm(x, torch.ones(2), torch.zeros(2), 0.0)
    assert_close(normed, torch.tensor([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]))


def test_batch_norm_depends_on_the_neighbors_and_layer_norm_does_not() -> None:
    x, one, zero = torch.randn(4, 3), torch.ones(3), torch.zeros(3)
    changed = x.clone()
    changed[1:] += torch.randn(3, 3)
    assert torch.equal(layer_norm(x, one, zero)[0], layer_norm(changed, one, zero)[0])
    assert not torch.allclose(batch_norm(x, one, zero)[0], batch_norm(changed, one, zero)[0])


def test_bad_input_is_named() -> None:
    with pytest.raises(EquationError, match=r"^layer_norm: gamma has shape \[3\], wanted \[dim\] with dim = 4"):
        layer_norm(torch.ones(2, 4), torch.ones(3), torch.ones(4))
    with pytest.raises(EquationError, match="^layer_norm: x is of shape .*at least one number"):
        layer_norm(torch.ones(2, 0), torch.ones(0), torch.ones(0))
    with pytest.raises(EquationError, match="^rms_norm: eps is -1"):
        rms_norm(torch.ones(2, 4), torch.ones(4), eps=-1.0)
    with pytest.raises(EquationError, match="^rms_norm: gamma is torch.float64, wanted torch.float32"):
        rms_norm(torch.ones(2, 4), torch.ones(4).double())
    with pytest.raises(EquationError, match=r"^batch_norm: x has shape \[2, 3, 4\]"):
        batch_norm(torch.ones(2, 3, 4), torch.ones(4), torch.ones(4))
