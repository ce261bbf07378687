"""Contrastive learning: worked examples, and the properties that define the loss, the logits and their scale."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equations.activations import gelu, quick_gelu
from glassformer.equations.contrastive import contrastive_logits, contrastive_loss, logit_scale
from glassformer.equations.metrics import recall_at_k
from glassformer.equations.sequences import select_each
from glassformer.errors import EquationError
from tests.equations.drawing import Draw
from tests.equations.test_every_equation import CASES


@CASES
@given(data=st.data())
def test_contrastive_loss_is_symmetric_cross_entropy_of_cosines(data: st.DataObject) -> None:
    draw = Draw(data)
    image, text = draw.normal(4, 6), draw.normal(4, 6)
    tau = draw.number(0.05, 2)
    cosines = functional.normalize(image, dim=-1) @ functional.normalize(text, dim=-1).T
    labels = torch.arange(4)
    expected = (functional.cross_entropy(cosines / tau, labels) + functional.cross_entropy(cosines.T / tau, labels)) / 2
    loss = contrastive_loss(image, text, tau)
    assert_close(loss, expected)
    assert_close(loss, contrastive_loss(text, image, tau))
    assert_close(loss, contrastive_loss(3 * image, text / 7, torch.tensor(tau, dtype=torch.float64)))
    order = torch.randperm(4, generator=draw.generator)
    assert_close(loss, contrastive_loss(image[order], text[order], tau))


def test_contrastive_loss_of_perfect_and_of_equal_pairs() -> None:
    axes = torch.eye(4)
    assert contrastive_loss(axes, axes, 0.01) < 1e-6
    assert contrastive_loss(torch.ones(4, 3), torch.ones(4, 3), 0.07).item() == pytest.approx(math.log(4), rel=1e-6)
    assert contrastive_loss(torch.zeros(4, 3), axes[:, :3], 0.07).item() == pytest.approx(math.log(4), rel=1e-6)


def test_contrastive_loss_by_hand() -> None:
    """Two pairs at right angles and one temperature: each own pair has the probability e / (e + 1)."""
    loss = contrastive_loss(torch.eye(2), torch.eye(2), 1.0)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6)


def test_a_gradient_pulls_own_pairs_together_and_pushes_others_apart() -> None:
    image, text = torch.eye(3, dtype=torch.float64), torch.full((3, 3), 0.5, dtype=torch.float64)
    text.requires_grad_()
    contrastive_loss(image, text + torch.eye(3), 1.0).backward()
    assert text.grad is not None
    assert (text.grad.diagonal() < 0).all() and (text.grad[~torch.eye(3).bool()] > 0).all()


def test_logits_are_scaled_cosines_and_their_scale_is_learned_up_to_a_limit() -> None:
    s = torch.tensor([-math.log(0.07)])
    assert logit_scale(s).item() == pytest.approx(1 / 0.07)
    assert logit_scale(torch.tensor([9.0])).item() == 100 and logit_scale(torch.tensor([9.0]), 7.5).item() == 7.5
    for value, wanted in ((9.0, 0.0), (1.0, math.e)):
        x = torch.tensor([value], requires_grad=True)
        logit_scale(x).backward()
        assert x.grad is not None and x.grad.item() == pytest.approx(wanted)
    image, text = functional.normalize(torch.randn(2, 5), dim=-1), functional.normalize(torch.randn(3, 5), dim=-1)
    found = contrastive_logits(image, text, torch.tensor([4.0]))
    assert_close(found, 4 * functional.cosine_similarity(image[:, None], text[None], dim=-1))


def test_quick_gelu_is_near_gelu() -> None:
    x = torch.linspace(-6, 6, 401, dtype=torch.float64)
    assert (quick_gelu(x) - gelu(x)).abs().max() < 0.021
    assert quick_gelu(torch.tensor(1.0)).item() == pytest.approx(1 / (1 + math.exp(-1.702)), rel=1e-6)


def test_each_sequence_is_read_at_its_own_position() -> None:
    x = torch.arange(12.0).view(2, 3, 2)
    assert select_each(x, torch.tensor([2, 0])).tolist() == [[4.0, 5.0], [6.0, 7.0]]


def test_recall_counts_the_ranks_up_to_k() -> None:
    ranks = torch.tensor([1, 2, 5, 40])
    assert [recall_at_k(ranks, k).item() for k in (1, 4, 5, 100)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: contrastive_loss(torch.ones(2, 3), torch.ones(3, 3), 0.1),
            r"contrastive_loss: text has shape \[3, 3\]",
        ),
        (lambda: contrastive_loss(torch.ones(2, 3), torch.ones(2, 3), 0.0), "contrastive_loss: temperature is 0.0"),
        (
            lambda: contrastive_loss(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2)),
            r"temperature has shape \[2\], wanted \[\]",
        ),
        (lambda: contrastive_loss(torch.ones(0, 3), torch.ones(0, 3), 0.1), r"contrastive_loss: image is of shape \[0"),
        (lambda: contrastive_loss(torch.ones(1, 1), torch.ones(1, 1) / 0, 0.1), "contrastive_loss: text is NaN or inf"),
        (lambda: contrastive_logits(torch.ones(2, 3), torch.ones(2, 4), torch.ones(1)), r"Y has shape \[2, 4\]"),
        (lambda: logit_scale(torch.ones(1), 0.0), "logit_scale: largest is 0.0, wanted a number above zero"),
        (
            lambda: select_each(torch.ones(2, 3, 1), torch.tensor([0, 3])),
            r"select_each: t is \[0, 3\], wanted positions",
        ),
        (lambda: recall_at_k(torch.tensor([0]), 1), "recall_at_k: ranks is 0, wanted ranks from 1 on"),
        (lambda: recall_at_k(torch.tensor([1]), 0), "recall_at_k: k is 0"),
        (lambda: recall_at_k(torch.tensor([], dtype=torch.int64), 1), "recall_at_k: ranks is empty"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        call()
