"""The loss of an output layer in pieces: any number of them, no rows at all, half precision beside float32 weights."""

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.equation import no_checks
from glassformer.equations.linear_cross_entropy import linear_cross_entropy, loss_in_pieces
from glassformer.equations.losses import cross_entropy
from glassformer.equations.onednn_affine import training_affine

MODULE = sys.modules["glassformer.equations.linear_cross_entropy"]


def layer(rows: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    h, E, b = (torch.randn(shape, generator=chance) for shape in ((rows, 5), (classes, 5), (classes,)))
    targets = torch.randint(0, classes, (rows,), generator=chance)
    targets[::7] = -100
    return h.requires_grad_(), E.requires_grad_(), targets, b.requires_grad_()


@given(rows=st.integers(0, 400), classes=st.integers(1, 40), epsilon=st.sampled_from([0.0, 0.1]))
def test_pieces_add_up_to_the_whole(rows: int, classes: int, epsilon: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODULE.PIECE, "cpu", 128 * classes)  # as many pieces as there can be
        found = layer(rows, classes)
        loss = linear_cross_entropy(*found, epsilon, -100)
        loss.backward()
    wanted = layer(rows, classes)
    h, E, targets, b = wanted
    whole = cross_entropy.fn(h @ E.T + b, targets, epsilon, -100, "sum")
    whole.backward()
    assert_close(loss, whole, rtol=1e-5, atol=1e-3)  # sums of hundreds in float32
    for one, other in zip(found, wanted, strict=True):
        assert (
            one.grad is None or other.grad is None or assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4) is None
        )


def test_few_pieces_however_many_rows() -> None:
    assert -(-(10**9) // MODULE._rows(10**9, 50_000, "cuda")) <= MODULE.MOST_PIECES


def test_a_long_sum_is_not_rounded_to_half_precision() -> None:
    h, E, targets, b = layer(4000, 30)
    with no_checks(), torch.autocast("cpu", torch.bfloat16):
        half = linear_cross_entropy(h.bfloat16(), E, targets, b, 0.0, -100)
    exact = linear_cross_entropy(h, E, targets, b, 0.0, -100)
    assert half.dtype == torch.float32
    assert float(half.detach()) == pytest.approx(float(exact.detach()), rel=2e-3)
    (gradient,) = torch.autograd.grad(half, E)
    assert gradient.dtype == torch.float32


def test_nothing_is_kept_where_no_gradient_is_wanted() -> None:
    h, E, targets, b = layer(50, 9)
    with torch.no_grad():
        assert linear_cross_entropy(h, E, targets, b, 0.0, -100).grad_fn is None


def test_products_are_those_of_training_where_gradients_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.Size] = []

    def noted(x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
        made.append(x.shape)
        return training_affine(x, W, b)

    monkeypatch.setattr(MODULE, "training_affine", noted)
    h, E, targets, b = layer(50, 9)
    with torch.no_grad():
        linear_cross_entropy(h, E, targets, b, 0.0, -100)
    assert not made, "kernels of many sizes would stay in memory"
    linear_cross_entropy(h, E, targets, b, 0.0, -100)
    assert len(made) == 3, "of logits and of both gradients, in one pass"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_empty_batch_is_planned(device: str) -> None:
    h, E, targets, b = (t.to("meta") for t in layer(0, 9))
    assert loss_in_pieces(h, E, targets, b, planned=device).shape == ()
