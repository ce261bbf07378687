"""Convolutions: worked examples, agreement with torch forward and backward, what defines them, bad input."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equations.convolution import conv2d, upsample
from glassformer.errors import EquationError
from glassformer.layers.convolution import Conv2d
from glassformer.recording import Tape

CASES = settings(max_examples=50, deadline=None)


def random(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_an_edge_filter_finds_the_edge() -> None:
    picture = torch.tensor([[[0.0, 0.0, 1.0, 1.0]] * 3])
    edges = conv2d(picture, torch.tensor([[[[-1.0, 1.0]]]]))
    assert edges.tolist() == [[[0.0, 1.0, 0.0]] * 3]
    assert conv2d.cell((0, 1, 1), picture, torch.tensor([[[[-1.0, 1.0]]]])) == "0·(−1) + 1·1 = 1"


def test_stride_and_padding_by_hand() -> None:
    picture = torch.arange(16.0).reshape(1, 4, 4)
    sums = conv2d(picture, torch.ones(1, 1, 3, 3), torch.tensor([0.5]), stride=2, padding=1)
    by_hand = [[10 + 0.5, 24 + 0.5], [51 + 0.5, 90 + 0.5]]
    assert sums.tolist() == [by_hand]


@CASES
@given(
    seed=st.integers(0, 2**31), side=st.integers(3, 8), kernel=st.integers(1, 3),
    stride=st.integers(1, 3), padding=st.integers(0, 2),
)  # fmt: skip
def test_it_equals_torch_forward_and_backward(seed: int, side: int, kernel: int, stride: int, padding: int) -> None:
    x, W, b = random(seed, 2, 3, side, side + 1), random(seed + 1, 4, 3, kernel, kernel), random(seed + 2, 4)
    leaves = [tensor.requires_grad_() for tensor in (x, W, b)]
    with Tape() as tape:
        y = conv2d(x, W, b, stride, padding)
    wanted = functional.conv2d(x, W, b, stride, padding)
    assert_close(y, wanted)
    bar = random(seed + 3, *y.shape)
    found = tape.reverse(bar)
    for leaf, gradient in zip(leaves, torch.autograd.grad(wanted, leaves, bar), strict=True):
        assert_close(found[leaf], gradient, rtol=1e-10, atol=1e-12)


@CASES
@given(seed=st.integers(0, 2**31), shift=st.integers(0, 2))
def test_a_moved_picture_has_moved_features(seed: int, shift: int) -> None:
    """What defines a convolution: it does not matter where in the picture something is."""
    x, W = functional.pad(random(seed, 1, 4, 4), (3, 3, 3, 3)), random(seed + 1, 2, 1, 3, 3)
    moved = conv2d(x.roll(shift, -1), W, padding=1)
    assert_close(moved, conv2d(x, W, padding=1).roll(shift, -1))


def test_a_filter_of_one_pixel_is_a_linear_layer() -> None:
    x, W = random(0, 3, 5, 5), random(1, 4, 3, 1, 1)
    assert_close(conv2d(x, W), torch.einsum("oc,chw->ohw", W[..., 0, 0], x))


def test_leading_axes_are_independent() -> None:
    x, W = random(0, 2, 3, 2, 4, 4), random(1, 2, 2, 3, 3)
    assert_close(conv2d(x, W)[1, 2], conv2d(x[1, 2], W))
    assert_close(upsample(x, 2)[1, 2], upsample(x[1, 2], 2))


@CASES
@given(seed=st.integers(0, 2**31), factor=st.integers(1, 4))
def test_upsampling_equals_torch_and_is_undone_by_pooling(seed: int, factor: int) -> None:
    x = random(seed, 2, 3, 2, 3)
    y = upsample(x, factor)
    assert torch.equal(y, functional.interpolate(x, scale_factor=factor, mode="nearest"))
    assert_close(functional.avg_pool2d(y, factor), x)


def test_the_layer_is_the_equation_with_parameters() -> None:
    layer = Conv2d(3, 5, kernel=4, stride=2, padding=1)
    torch.nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    x = random(0, 2, 3, 8, 8).float()
    assert layer(x).shape == (2, 5, 4, 4)
    assert_close(layer(x), functional.conv2d(x, layer.weight, layer.bias, 2, 1))
    assert Conv2d(3, 5, 4, bias=False).bias is None


X, W = torch.zeros(1, 2, 4, 4), torch.zeros(3, 2, 3, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: conv2d(X[0, 0], W), r"conv2d: x has shape \[4, 4\], wanted \[\*batch channels height width\]"),
        (lambda: conv2d(X[:, :1], W), r"W has shape \[3, 2, 3, 3\], wanted .* with channels = 1 \(from x\)"),
        (lambda: conv2d(X[..., :2, :], W), "W is 3 high, wanted at most 2, the picture with its padding"),
        (lambda: conv2d(X, W[..., :0]), "W is 0 wide, wanted a filter of at least one number"),
        (lambda: conv2d(X, W, stride=0), "stride is 0, wanted a whole number, at least 1"),
        (lambda: conv2d(X, W, padding=-1), "padding is -1, wanted a whole number, at least 0"),
        (lambda: conv2d(X, W.double()), "W is torch.float64, wanted torch.float32, the dtype of x"),
        (lambda: conv2d(X.byte(), W), "x has type uint8, wanted float"),
        (lambda: upsample(X, 0), "upsample: factor is 0, wanted a whole number, at least 1"),
    ],
)
def test_bad_input_is_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        wrong()
