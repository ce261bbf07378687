"""Losses against torch's own, their edges (ignored examples, impossible classes), the sources' numbers, bad input."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equations.algebra import linear
from glassformer.equations.huber import huber_loss
from glassformer.equations.information import cross_entropy_between
from glassformer.equations.losses import (
    bits_per_byte,
    cross_entropy,
    label_smoothing,
    mean_squared_error,
    perplexity,
)
from glassformer.equations.softmax import log_softmax, softmax
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.equations.drawing import Draw

CASES = settings(max_examples=100, deadline=None)
RUNS = pytest.mark.parametrize("run", ["fused", "fn"])


def given_only(**settings_: object) -> dict:
    """The settings that are not None, which torch does not take."""
    return {key: value for key, value in settings_.items() if value is not None}


@RUNS
@CASES
@given(data=st.data())
def test_cross_entropy_of_classes_equals_torch(run: str, data: st.DataObject) -> None:
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64])))
    batch, classes = draw.lead(), draw.integer(1, 7)
    logits, targets = 3 * draw.normal(*batch, classes), draw.below(classes, *batch)
    settings_ = {"label_smoothing": draw.choose(0.0, 0.1, 0.9), "reduction": draw.choose("mean", "sum", "none")}
    ignore = draw.choose(None, -100, 0)
    if ignore == -100:
        targets = targets.where(draw.flags(*batch), -100)
    if ignore is not None and settings_["reduction"] == "mean" and (targets == ignore).all():
        return  # torch gives NaN here; what we give has a test of its own
    ours = getattr(cross_entropy, run)(logits, targets, ignore_index=ignore, **settings_)
    flat = functional.cross_entropy(
        logits.reshape(-1, classes), targets.reshape(-1), **given_only(ignore_index=ignore, **settings_)
    )
    assert_close(ours, flat.reshape(ours.shape))


@RUNS
@CASES
@given(data=st.data())
def test_cross_entropy_of_probabilities_equals_torch(run: str, data: st.DataObject) -> None:
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64])))
    batch, classes = draw.lead(), draw.integer(1, 7)
    logits, targets = 3 * draw.normal(*batch, classes), draw.distribution(*batch, classes)
    settings_ = {"label_smoothing": draw.choose(0.0, 0.1, 0.9), "reduction": draw.choose("mean", "sum", "none")}
    ours = getattr(cross_entropy, run)(logits, targets, **settings_)
    flat = functional.cross_entropy(logits.reshape(-1, classes), targets.reshape(-1, classes), **settings_)
    assert_close(ours, flat.reshape(ours.shape))


@CASES
@given(data=st.data())
def test_classes_are_probabilities_of_one(data: st.DataObject) -> None:
    draw = Draw(data)
    logits, targets = draw.normal(4, 6), draw.below(6, 4)
    one_hot = functional.one_hot(targets, 6).double()
    loss = cross_entropy(logits, targets)
    assert_close(loss, cross_entropy(logits, one_hot))
    assert_close(loss, cross_entropy_between(one_hot, softmax(logits)).mean())
    assert_close(loss, -log_softmax(logits).gather(-1, targets[:, None]).mean())
    smooth = label_smoothing(one_hot, 0.2)
    assert_close(cross_entropy(logits, targets, label_smoothing=0.2), cross_entropy(logits, smooth))
    assert_close(smooth.sum(-1), torch.ones(4, dtype=torch.float64))


@CASES
@given(data=st.data())
def test_the_gradient_is_p_minus_y_over_n(data: st.DataObject) -> None:
    draw = Draw(data)
    n, classes = draw.integer(1, 5), draw.integer(1, 6)
    logits, targets = draw.normal(n, classes), draw.below(classes, n)
    with Tape() as tape:
        cross_entropy(logits, targets)
    gradient = tape.reverse()[logits]
    assert_close(gradient, (softmax(logits) - functional.one_hot(targets, classes)) / n)
    assert_close(gradient.sum(-1), torch.zeros(n, dtype=torch.float64), rtol=0, atol=1e-12)


@CASES
@given(data=st.data())
def test_ignored_examples_change_nothing(data: st.DataObject) -> None:
    draw = Draw(data)
    logits, targets = draw.normal(6, 5), draw.below(5, 6)
    targets[draw.integer(0, 5)] = -1
    kept = targets != -1
    label_smoothing = draw.choose(0.0, 0.1)
    alone = cross_entropy(logits[kept], targets[kept], label_smoothing)
    for kind in (logits, torch.where(kept[:, None], logits, 100 * draw.normal(6, 5))):
        other = kind.clone().requires_grad_()
        loss = cross_entropy(other, targets, label_smoothing, ignore_index=-1)
        assert_close(loss, alone)
        (gradient,) = torch.autograd.grad(loss, other)
        assert (gradient[~kept] == 0).all()


@RUNS
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_where_every_row_is_ignored_the_loss_is_zero(run: str, reduction: str) -> None:
    logits, targets = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True), torch.full((2, 3), -100)
    loss = getattr(cross_entropy, run)(logits, targets, label_smoothing=0.1, ignore_index=-100, reduction=reduction)
    assert (loss == 0).all() and loss.shape == ((2, 3) if reduction == "none" else ())
    (by_autograd,) = torch.autograd.grad(loss.sum(), logits)
    with Tape() as tape:
        cross_entropy(logits, targets, label_smoothing=0.1, ignore_index=-100)
    assert (by_autograd == 0).all() and (tape.reverse()[logits] == 0).all()


@RUNS
def test_no_examples_at_all_give_no_loss(run: str) -> None:
    assert getattr(cross_entropy, run)(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)) == 0


@RUNS
def test_impossible_classes_cost_nothing_unless_they_come(run: str) -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0]], dtype=torch.float64, requires_grad=True)
    loss = getattr(cross_entropy, run)
    for targets in (torch.tensor([0]), torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)):
        value = loss(logits, targets)
        assert value.item() == pytest.approx(math.log(2))
        assert_close(torch.autograd.grad(value, logits)[0], torch.tensor([[-0.5, 0.0, 0.5]], dtype=torch.float64))
    assert loss(logits, torch.tensor([1])) == torch.inf
    assert loss(logits, torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)) == torch.inf


@RUNS
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_classes_may_be_of_any_whole_type(run: str, dtype: torch.dtype) -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([4, 0, 2])
    assert_close(getattr(cross_entropy, run)(logits, targets.to(dtype)), functional.cross_entropy(logits, targets))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    logits = torch.randn(3000, 50, generator=torch.Generator().manual_seed(0)).to(dtype)
    targets = torch.randint(50, (3000,), generator=torch.Generator().manual_seed(1))
    exact = functional.cross_entropy(logits.double(), targets)
    for run in (cross_entropy.fn, cross_entropy):
        assert_close(run(logits, targets).double(), exact, rtol=torch.finfo(dtype).eps, atol=0)


@CASES
@given(data=st.data())
def test_mean_squared_error_counts_examples_and_sums_outputs(data: st.DataObject) -> None:
    draw = Draw(data)
    batch, outputs = draw.lead(), draw.integer(1, 5)
    y_hat, y = draw.normal(*batch, outputs), draw.normal(*batch, outputs)
    assert_close(mean_squared_error(y_hat, y), (y_hat - y).square().sum(-1).mean())
    assert_close(mean_squared_error(y_hat, y), outputs * functional.mse_loss(y_hat, y))
    assert mean_squared_error(y, y) == 0


def test_the_linear_model_of_the_sources() -> None:
    X = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 1.5]], dtype=torch.float64)
    W = torch.tensor([[0.2, -0.4], [0.1, 0.3]], dtype=torch.float64)
    b = torch.tensor([0.05, -0.1], dtype=torch.float64)
    Y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, -0.5]], dtype=torch.float64)
    with Tape() as tape:
        loss = mean_squared_error(linear(X, W, b), Y)
    gradients = tape.reverse()
    assert loss.item() == pytest.approx(2.6125)
    assert gradients[W].flatten().tolist() == pytest.approx([2 / 3, -4.916666666666668, -1.3, 2.5166666666666666])
    assert gradients[b].tolist() == pytest.approx([-0.13333333333333325, -1.2333333333333336])


def test_cross_entropy_numbers_of_the_sources() -> None:
    good = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64).log()
    bad = torch.tensor([0.1, 0.1, 0.1, 0.7], dtype=torch.float64).log()
    y = torch.tensor(0)
    assert cross_entropy(good, y).item() == pytest.approx(0.35667494393873245)
    with Tape() as tape:
        loss = cross_entropy(bad, y)
    gradient = tape.reverse()[bad]
    assert loss.item() == pytest.approx(2.3025850929940455)
    assert gradient.tolist() == pytest.approx([-0.9, 0.1, 0.1, 0.7])
    after = bad - 0.1 * gradient
    assert softmax(after).tolist() == pytest.approx(
        [0.1139642522737399, 0.10311911977577, 0.10311911977577, 0.67979750817472]
    )
    assert cross_entropy(after, y).item() == pytest.approx(2.1718704563091884)


def test_perplexity_numbers_of_the_sources() -> None:
    log_probs = torch.tensor([0.25, 0.5, 0.125, 0.25], dtype=torch.float64).log()
    assert perplexity(log_probs).item() == pytest.approx(4.0)
    assert perplexity(torch.full((7,), -math.log(50))).item() == pytest.approx(50.0)


@CASES
@given(data=st.data())
def test_perplexity_is_the_exponential_of_the_loss(data: st.DataObject) -> None:
    draw = Draw(data)
    logits, targets = draw.normal(2, 7, 5), draw.below(5, 2, 7)
    log_probs = log_softmax(logits).gather(-1, targets[..., None]).squeeze(-1)
    assert_close(perplexity(log_probs), cross_entropy(logits, targets).exp())
    assert perplexity(log_probs) >= 1
    keep = draw.flags(2, 7)
    keep[0, 0] = True
    ignored = targets.where(keep, -100)
    assert_close(perplexity(log_probs, keep), cross_entropy(logits, ignored, ignore_index=-100).exp())
    assert_close(perplexity(log_probs, keep), perplexity(log_probs[keep]))
    assert_close(perplexity(log_probs.where(keep, -torch.inf), keep), perplexity(log_probs[keep]))


def test_bits_per_byte() -> None:
    assert bits_per_byte(800 * math.log(2), 100) == pytest.approx(8.0)
    assert bits_per_byte(0.0, 1) == 0


LOGITS = torch.zeros(2, 3)
CLASSES = torch.tensor([0, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": torch.tensor([0, 3])}, r"targets is \[3\] in some entries, wanted classes from 0 to 2"),
        ({"targets": torch.tensor([-100, 1])}, r"targets is \[-100\] in some entries, wanted classes from 0 to 2"),
        (
            {"targets": torch.tensor([-1, 7]), "ignore_index": -1},
            r"targets is \[7\] in some entries, .* or -1 to be left out",
        ),
        ({"targets": torch.tensor([0])}, r"targets has shape \[1\], wanted .* batch = 2 \(from logits\)"),
        ({"targets": torch.zeros(2, 4)}, r"targets has shape \[2, 4\], wanted .*classes = 3 \(from logits\)"),
        (
            {"targets": torch.ones(2, 3)},
            r"targets is distributions that sum to \[3.0, 3.0\], wanted distributions that sum to one",
        ),
        ({"targets": torch.full((2, 3), 1 / 3), "ignore_index": 0}, "ignore_index is 0, wanted None"),
        ({"targets": CLASSES, "label_smoothing": 1.0}, "label_smoothing is 1.0, wanted at least 0, less than 1"),
        ({"targets": CLASSES, "label_smoothing": -0.1}, "label_smoothing is -0.1, wanted at least 0, less than 1"),
        ({"targets": CLASSES, "reduction": "median"}, "reduction is 'median', wanted mean, sum or none"),
        ({"targets": CLASSES, "logits": torch.tensor([[0.0, torch.nan], [0.0, 0.0]])}, "logits is NaN or infinite"),
        ({"targets": CLASSES, "logits": torch.tensor([[0.0, torch.inf], [0.0, 0.0]])}, "logits is NaN or infinite"),
        ({"targets": CLASSES, "logits": torch.zeros(2, 0)}, r"logits is of shape \[2, 0\], wanted at least one logit"),
        ({"targets": CLASSES, "logits": torch.zeros(2, 3, dtype=torch.int64)}, "logits has type int64, wanted float"),
        ({"targets": CLASSES.bool()}, "targets has type bool, wanted int or float"),
    ],
)
def test_bad_input_of_cross_entropy_is_named(arguments: dict, message: str) -> None:
    with pytest.raises(EquationError, match=f"^cross_entropy: {message}"):
        cross_entropy(**{"logits": LOGITS} | arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: label_smoothing(torch.tensor([1.0, 0.0]), 1.0), "label_smoothing: epsilon is 1.0"),
        (lambda: label_smoothing(torch.tensor([1.0, 1.0]), 0.1), "label_smoothing: y is distributions that sum to"),
        (lambda: mean_squared_error(torch.zeros(2, 3), torch.zeros(3)), r"mean_squared_error: y has shape \[3\]"),
        (lambda: mean_squared_error(torch.zeros(2, 3), torch.zeros(2, 1)), r"mean_squared_error: y has shape \[2, 1\]"),
        (
            lambda: mean_squared_error(torch.zeros(0, 3), torch.zeros(0, 3)),
            r"mean_squared_error: y_hat is of shape \[0",
        ),
        (lambda: mean_squared_error(torch.tensor([torch.nan]), torch.zeros(1)), "mean_squared_error: y_hat is NaN"),
        (lambda: perplexity(torch.tensor([])), "perplexity: log_probs is empty, wanted at least one token"),
        (lambda: perplexity(-torch.ones(2), torch.tensor([False, False])), "perplexity: mask is empty"),
        (lambda: perplexity(-torch.ones(2), torch.ones(3).bool()), r"perplexity: mask has shape \[3\]"),
        (lambda: perplexity(torch.tensor([0.5])), "perplexity: log_probs is NaN or above zero"),
        (lambda: perplexity(torch.tensor([torch.nan])), "perplexity: log_probs is NaN or above zero"),
        (lambda: bits_per_byte(-1.0, 3), "bits_per_byte: nats is -1.0"),
        (lambda: bits_per_byte(1.0, 0), "bits_per_byte: bytes is 0"),
    ],
)
def test_bad_input_of_the_others_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        call()


@pytest.mark.parametrize("delta", [0.5, 1.0, 3.0])
def test_huber_loss_is_that_of_torch(delta: float) -> None:
    x = torch.linspace(-4, 4, 33, dtype=torch.float64)
    wanted = functional.huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta)
    assert torch.allclose(huber_loss(x, delta), wanted)


def test_the_bend_of_huber_loss_must_be_above_zero() -> None:
    with pytest.raises(EquationError, match="delta is 0"):
        huber_loss(torch.ones(2), 0)
