"""Updates against torch's own optimizers, the sources' numbers, and what must hold of any descent."""

import math
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Muon, Optimizer, RMSprop
from torch.testing import assert_close

from glassformer.equations import (
    adam,
    adamw,
    bias_correction,
    clip_gradient,
    difference_quotient,
    exponential_moving_average,
    frobenius_normalize,
    global_norm,
    gradient_descent,
    momentum,
    moving_mean_square,
    muon,
    newton_schulz,
    normalized_descent,
    orthogonalize,
    rmsprop,
    weight_decay,
)
from glassformer.equations.muon import _A, _B, _C
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.equations.drawing import Draw

CASES = settings(max_examples=40, deadline=None)
STEPS = 6
MUON_BOUND = 0.15  # per entry of the update; 0.13 is the largest seen in 28,000 matrices with such singular values
Update = Callable[..., tuple[Tensor, ...] | Tensor]


def assert_agrees(
    data: st.DataObject, make: Callable[..., Optimizer], update: Update, states: int, counted: bool
) -> None:
    """Run one of torch's optimizers and an update of ours side by side on the same random gradients."""
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64])))
    shape = draw.lead()
    theta = draw.normal(*shape)
    parameter = theta.clone().requires_grad_()
    optimizer = make([parameter])
    state: tuple[Tensor, ...] = (torch.zeros_like(theta),) * states
    for step in range(1, STEPS + 1):
        g = draw.normal(*shape)
        parameter.grad = g.clone()
        optimizer.step()
        result = update(theta, g, *state, **({"step": step} if counted else {}))
        theta, *state = result if isinstance(result, tuple) else (result,)
        assert_close(theta, parameter.detach())


@CASES
@given(data=st.data(), rate=st.floats(0, 1))
def test_gradient_descent_is_torchs(data: st.DataObject, rate: float) -> None:
    assert_agrees(data, lambda p: SGD(p, lr=rate), lambda theta, g: gradient_descent(theta, g, rate), 0, False)


@CASES
@given(data=st.data(), rate=st.floats(0, 0.5), beta=st.floats(0.01, 0.99), nesterov=st.booleans())
def test_momentum_is_torchs(data: st.DataObject, rate: float, beta: float, nesterov: bool) -> None:
    def make(p: list[Tensor]) -> Optimizer:
        return SGD(p, lr=rate, momentum=beta, nesterov=nesterov)

    assert_agrees(data, make, lambda *tensors: momentum(*tensors, rate, beta, nesterov), 1, False)


@CASES
@given(data=st.data(), rate=st.floats(0, 0.1), rho=st.floats(0, 0.99), eps=st.sampled_from([1e-8, 1e-3]))
def test_rmsprop_is_torchs(data: st.DataObject, rate: float, rho: float, eps: float) -> None:
    assert_agrees(
        data,
        lambda p: RMSprop(p, lr=rate, alpha=rho, eps=eps),
        lambda *tensors: rmsprop(*tensors, rate, rho, eps),
        1,
        False,
    )


@CASES
@given(
    data=st.data(),
    rate=st.floats(0, 0.1),
    betas=st.tuples(st.floats(0, 0.99), st.floats(0, 0.999)),
    eps=st.sampled_from([1e-8, 1e-3]),
)
def test_adam_is_torchs(data: st.DataObject, rate: float, betas: tuple[float, float], eps: float) -> None:
    def update(theta: Tensor, g: Tensor, m: Tensor, v: Tensor, step: int) -> tuple[Tensor, ...]:
        return adam(theta, g, m, v, step, rate, betas, eps)

    assert_agrees(data, lambda p: Adam(p, lr=rate, betas=betas, eps=eps), update, 2, True)


@CASES
@given(data=st.data(), rate=st.floats(0, 0.1), decay=st.floats(0, 0.5))
def test_adamw_is_torchs(data: st.DataObject, rate: float, decay: float) -> None:
    def update(theta: Tensor, g: Tensor, m: Tensor, v: Tensor, step: int) -> tuple[Tensor, ...]:
        return adamw(theta, g, m, v, step, rate, decay)

    assert_agrees(data, lambda p: AdamW(p, lr=rate, weight_decay=decay), update, 2, True)


def test_defaults_are_torchs() -> None:
    theta, g, state = torch.ones(3), torch.tensor([1.0, -2.0, 0.5]), torch.zeros(3)
    for make, ours in (
        (lambda p: RMSprop(p, lr=0.01), rmsprop(theta, g, state, 0.01)),
        (lambda p: Adam(p, lr=0.01), adam(theta, g, state, state, 1, 0.01)),
        (lambda p: AdamW(p, lr=0.01), adamw(theta, g, state, state, 1, 0.01)),
        (lambda p: SGD(p, lr=0.01, momentum=0.9), momentum(theta, g, state, 0.01)),
    ):
        parameter = theta.clone().requires_grad_()
        parameter.grad = g
        make([parameter]).step()
        assert_close(ours[0], parameter.detach())


def test_adam_starts_with_steps_of_the_learning_rate() -> None:
    theta, state = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    g = torch.tensor([1e-3, -1.0, 50.0, -1e4], dtype=torch.float64)
    assert_close(adam(theta, g, state, state, 1, 0.1)[0], -0.1 * g.sign(), rtol=1e-4, atol=0)


def test_an_adamw_of_another_epsilon_is_its_two_parts() -> None:
    theta, g, m, v = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).unbind()
    by_hand = adam(weight_decay(theta, 0.1, 0.3), g, m, v.square(), 3, 0.1, (0.8, 0.9))
    assert_close(adamw(theta, g, m, v.square(), 3, 0.1, 0.3, (0.8, 0.9)), by_hand, rtol=0, atol=0)


def test_parameters_that_never_saw_a_gradient_do_not_move() -> None:
    theta, zeros = torch.tensor([3.0, -2.0]), torch.zeros(2)
    assert torch.equal(rmsprop(theta, zeros, zeros, 0.1)[0], theta)
    assert torch.equal(adam(theta, zeros, zeros, zeros, 1, 0.1)[0], theta)


def test_gradients_through_an_untouched_parameter_are_finite() -> None:
    theta, g, m, v = torch.ones(2), torch.zeros(2), torch.zeros(2), torch.zeros(2)
    with Tape() as tape:
        adam(theta, g, m, v, 1, 0.1)
    gradients = tape.reverse(torch.ones(2), of=tape.steps[0].output)
    assert all(gradients[tensor].isfinite().all() for tensor in (theta, g, m, v))


# The sources' descent on x².


def test_descent_on_a_parabola_is_the_closed_form() -> None:
    x = torch.tensor(3.0, dtype=torch.float64)
    iterates = [x]
    for _ in range(10):
        x = gradient_descent(x, 2 * x, 0.1)
        iterates.append(x)
    assert [round(float(value), 4) for value in iterates[:4]] == [3.0, 2.4, 1.92, 1.536]
    assert float(x) == pytest.approx(3 * 0.8**10, rel=1e-12)
    assert round(float(x), 4) == 0.3221


@pytest.mark.parametrize(("rate", "grows"), [(0.1, False), (0.99, False), (1.01, True)])
def test_too_large_a_rate_diverges(rate: float, grows: bool) -> None:
    x = torch.tensor(3.0, dtype=torch.float64)
    for _ in range(50):
        x = gradient_descent(x, 2 * x, rate)
    assert bool(x.abs() > 3) is grows


@pytest.mark.parametrize("h", [0.1, 0.01, 0.001, 1e-4])
def test_the_difference_quotient_tends_to_the_derivative(h: float) -> None:
    x = torch.tensor(3.0, dtype=torch.float64)
    assert float(difference_quotient((x + h) ** 2, x**2, h)) == pytest.approx(6 + h, rel=1e-9)


@CASES
@given(data=st.data(), decay=st.floats(0, 1))
def test_an_average_lies_between_old_and_new(data: st.DataObject, decay: float) -> None:
    draw = Draw(data)
    old, new = draw.normal(3), draw.normal(3)
    mixed = exponential_moving_average(old, new, decay)
    assert ((mixed >= torch.minimum(old, new) - 1e-12) & (mixed <= torch.maximum(old, new) + 1e-12)).all()


@CASES
@given(data=st.data(), decay=st.floats(0, 0.999), steps=st.integers(1, 30))
def test_bias_correction_makes_a_steady_average_exact(data: st.DataObject, decay: float, steps: int) -> None:
    x = Draw(data).normal(3)
    average = torch.zeros_like(x)
    for _ in range(steps):
        average = exponential_moving_average(average, x, decay)
    assert_close(bias_correction(average, decay, steps), x)


def test_the_mean_square_does_not_see_the_sign() -> None:
    v, g = torch.rand(5), torch.randn(5)
    assert torch.equal(moving_mean_square(v, g, 0.9), moving_mean_square(v, -g, 0.9))


# Muon.


def reference(G: Tensor, steps: int) -> Tensor:
    """Torch's own iteration with its rounding to bfloat16 taken out."""
    with patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone):
        return torch.optim._muon._zeropower_via_newtonschulz(G, (3.4445, -4.7750, 2.0315), steps, 1e-7)


@CASES
@given(data=st.data(), rows=st.integers(1, 9), columns=st.integers(1, 9), steps=st.integers(1, 7))
def test_orthogonalize_is_torchs_without_the_rounding(data: st.DataObject, rows: int, columns: int, steps: int) -> None:
    G = Draw(data).normal(rows, columns)
    assert_close(orthogonalize(G, steps), reference(G, steps), rtol=1e-7, atol=1e-7)


@CASES
@given(data=st.data(), rows=st.integers(1, 9), columns=st.integers(1, 9), nesterov=st.booleans())
def test_muon_is_torchs_without_the_rounding(data: st.DataObject, rows: int, columns: int, nesterov: bool) -> None:
    draw = Draw(data)
    theta, buffer = draw.normal(rows, columns), torch.zeros(rows, columns, dtype=torch.float64)
    parameter = theta.clone().requires_grad_()
    optimizer = Muon([parameter], lr=0.02, nesterov=nesterov)
    for _ in range(3):
        parameter.grad = draw.normal(rows, columns)
        theta, buffer = muon(theta, parameter.grad, buffer, 0.02, nesterov=nesterov)
        with patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone):
            optimizer.step()
        assert_close(theta, parameter.detach(), rtol=1e-7, atol=1e-7)


def well_conditioned(draw: Draw, rows: int, columns: int) -> Tensor:
    """A matrix whose singular values lie within a factor of ten."""
    U, _, V = torch.linalg.svd(draw.normal(rows, columns), full_matrices=False)
    return (U * (0.1 + 0.9 * torch.rand(U.shape[-1], generator=draw.generator).to(U))) @ V


@CASES
@given(data=st.data(), rows=st.integers(1, 16), columns=st.integers(1, 16), rate=st.floats(0.001, 0.1))
def test_muon_is_torchs_within_the_bound_of_its_rounding(
    data: st.DataObject, rows: int, columns: int, rate: float
) -> None:
    draw = Draw(data, torch.float32)
    theta = draw.normal(rows, columns)
    parameter = theta.clone().requires_grad_()
    parameter.grad = well_conditioned(Draw(data), rows, columns).float()
    Muon([parameter], lr=rate).step()
    ours, _ = muon(theta, parameter.grad, torch.zeros_like(theta), rate)
    bound = MUON_BOUND * rate * math.sqrt(max(1, rows / columns))
    assert float((ours - parameter.detach()).abs().max()) < bound


@CASES
@given(data=st.data(), rows=st.integers(1, 12), columns=st.integers(1, 12))
def test_orthogonalize_keeps_directions_and_evens_out_strengths(data: st.DataObject, rows: int, columns: int) -> None:
    G = well_conditioned(Draw(data), rows, columns)
    X = orthogonalize(G)
    strengths = torch.linalg.svdvals(X)
    assert float(strengths.min()) > 0.65 and float(strengths.max()) < 1.21
    mixed = G.mT @ X  # symmetric and positive just when the singular vectors are the same
    assert_close(mixed, mixed.mT, rtol=1e-7, atol=1e-9)
    assert float(torch.linalg.eigvalsh(mixed).min()) > -1e-9


@CASES
@given(data=st.data(), rows=st.integers(1, 6), columns=st.integers(1, 6))
def test_a_round_works_on_singular_values_alone(data: st.DataObject, rows: int, columns: int) -> None:
    U, s, V = torch.linalg.svd(Draw(data).normal(rows, columns) / 6, full_matrices=False)
    assert_close(newton_schulz((U * s) @ V), (U * (_A * s + _B * s**3 + _C * s**5)) @ V)


def test_rounds_of_newton_schulz_do_to_singular_values_what_its_words_say() -> None:
    s = torch.logspace(-2, 0, 200, dtype=torch.float64)
    once = newton_schulz(torch.diag(s)).diagonal()
    assert (once[s < 0.5] > s[s < 0.5]).all() and once[-1] < 0.71
    X = torch.diag(s)
    for _ in range(5):
        X = newton_schulz(X)
    assert X.diagonal().min() > 0.65 and X.diagonal().max() < 1.21
    X_new = next(symbol for symbol in newton_schulz.symbols if symbol.name == "X_new")
    assert "between about 0.7 and 1.2" in X_new.meaning and "towards one" not in newton_schulz.meaning


@CASES
@given(data=st.data(), rows=st.integers(1, 6), columns=st.integers(1, 6), scale=st.floats(0.01, 100))
def test_orthogonalize_knows_transposes_scales_and_stacks(
    data: st.DataObject, rows: int, columns: int, scale: float
) -> None:
    draw = Draw(data)
    G, H = draw.normal(rows, columns), draw.normal(rows, columns)
    X = orthogonalize(G)
    assert_close(orthogonalize(G.mT), X.mT)
    assert_close(orthogonalize(scale * G), X, rtol=1e-6, atol=1e-8)
    assert_close(orthogonalize(torch.stack([G, H])), torch.stack([X, orthogonalize(H)]))


def test_a_zero_matrix_stays_zero() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 3)), torch.zeros(2, 3))
    assert torch.equal(frobenius_normalize(torch.zeros(2, 3)), torch.zeros(2, 3))


# The length of gradients.


@CASES
@given(data=st.data(), limit=st.floats(0.01, 10))
def test_clipping_is_torchs(data: st.DataObject, limit: float) -> None:
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64])))
    gradients = [draw.normal(*draw.lead()) for _ in range(draw.integer(1, 4))]
    parameters = [g.clone().requires_grad_() for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = g.clone()
    total = torch.nn.utils.clip_grad_norm_(parameters, limit)
    norm = global_norm(gradients)
    assert_close(norm, total)
    for parameter, g in zip(parameters, gradients, strict=True):
        assert_close(clip_gradient(g, norm, limit), parameter.grad)


@CASES
@given(data=st.data(), limit=st.floats(0.01, 10))
def test_clipped_gradients_are_within_the_limit_and_point_the_same_way(data: st.DataObject, limit: float) -> None:
    g = Draw(data).normal(3, 4)
    norm = global_norm([g])
    clipped = clip_gradient(g, norm, limit)
    assert float(global_norm([clipped])) <= limit
    assert_close(clipped * norm, g * global_norm([clipped]))


def test_the_norm_of_half_precision_is_added_up_in_single() -> None:
    many = torch.full((100_000,), 0.01, dtype=torch.bfloat16)
    norm = global_norm([many, many])
    assert norm.dtype == torch.bfloat16
    assert float(norm) == pytest.approx(float(many[0]) * math.sqrt(200_000), rel=2**-8)


# Bad input.

T = torch.ones(2, 3)
NAN, INFINITE = torch.tensor([[math.nan] * 3] * 2), torch.tensor([[math.inf] * 3] * 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gradient_descent(T, T, -0.1), "rate is -0.1, wanted a number, zero or more"),
        (lambda: gradient_descent(T, T, math.nan), "rate is nan"),
        (lambda: gradient_descent(T, T, "0.1"), "rate is '0.1'"),
        (
            lambda: gradient_descent(T, T[0], 0.1),
            r"g has shape \[3\], wanted \[\*size\] with size = 2, 3 \(from theta\)",
        ),
        (lambda: gradient_descent(T, T.long(), 0.1), "g has type int64, wanted float"),
        (lambda: gradient_descent(T, T.double(), 0.1), "g is torch.float64, wanted torch.float32"),
        (lambda: gradient_descent(T, NAN, 0.1), "g is NaN or infinite in some entries, wanted finite numbers"),
        (lambda: gradient_descent(T, INFINITE, 0.1), "g is NaN or infinite"),
        (lambda: weight_decay(T, 0.1, -1.0), "decay is -1.0"),
        (lambda: weight_decay(T, -0.1, 1.0), "rate is -0.1"),
        (lambda: exponential_moving_average(T, T, 1.5), "decay is 1.5, wanted at least 0, at most 1"),
        (lambda: exponential_moving_average(T, T.half(), 0.5), "theta is torch.float16"),
        (lambda: momentum(T, T, T, 0.1, 1.0), "beta is 1.0, wanted at least 0, less than 1"),
        (lambda: momentum(T, T, T, -0.1), "rate is -0.1"),
        (lambda: momentum(T, NAN, T, 0.1), "g is NaN"),
        (lambda: momentum(T, T, T.half(), 0.1), "velocity is torch.float16"),
        (lambda: moving_mean_square(-T, T, 0.9), "v is negative or NaN in some entries"),
        (lambda: moving_mean_square(T, T, -0.1), "decay is -0.1"),
        (lambda: bias_correction(T, 0.9, 0), "step is 0, wanted a whole number, at least 1"),
        (lambda: bias_correction(T, 1.0, 1), "decay is 1.0"),
        (lambda: normalized_descent(T, T, -T, 0.1), "v is negative"),
        (lambda: normalized_descent(T, NAN, T, 0.1), "m is NaN"),
        (lambda: normalized_descent(T, T, T, 0.1, 0.0), "eps is 0.0"),
        (lambda: normalized_descent(T, T, T, -0.1), "rate is -0.1"),
        (lambda: rmsprop(T, T, -T, 0.1), "v is negative or NaN in some entries"),
        (lambda: rmsprop(T, T, T, 0.1, rho=1.0), "rho is 1.0"),
        (lambda: rmsprop(T, T, T, -0.1), "rate is -0.1"),
        (lambda: rmsprop(T, T, T, 0.1, eps=-1e-8), "eps is -1e-08"),
        (lambda: rmsprop(T, INFINITE, T, 0.1), "g is NaN or infinite"),
        (lambda: adam(T, T, T, T, 0, 0.1), "step is 0, wanted a whole number, at least 1"),
        (lambda: adam(T, T, T, T, 1, -0.1), "rate is -0.1"),
        (lambda: adam(T, T, T, T, 1, 0.1, (0.9, 1.0)), r"betas\[1\] is 1.0"),
        (lambda: adam(T, T, T, T, 1, 0.1, (-0.1, 0.9)), r"betas\[0\] is -0.1"),
        (lambda: adam(T, T, T, T, 1, 0.1, (0.9,)), r"betas is \(0.9,\), wanted two numbers"),
        (lambda: adam(T, T, T, T, 1, 0.1, 0.9), "betas is 0.9, wanted two numbers"),
        (lambda: adam(T, T, T, T, 1, 0.1, eps=0.0), "eps is 0.0"),
        (lambda: adam(T, T, T, -T, 1, 0.1), "v is negative"),
        (lambda: adam(T, NAN, T, T, 1, 0.1), "g is NaN"),
        (lambda: adam(T, T, T[:1], T, 1, 0.1), r"m has shape \[1, 3\]"),
        (lambda: adamw(T, T, T, T, 0, 0.1), "step is 0"),
        (lambda: adamw(T, T, T, T, 1, 0.1, decay=-1), "decay is -1"),
        (lambda: adamw(T, T, T, T, 1, -0.1), "rate is -0.1"),
        (lambda: adamw(T, T, T, T, 1, 0.1, betas=(0.9, 2.0)), r"betas\[1\] is 2.0"),
        (lambda: orthogonalize(T[0]), r"G has shape \[3\], wanted \[\*batch rows columns\]"),
        (lambda: orthogonalize(T, 0), "steps is 0"),
        (lambda: orthogonalize(T, eps=0.0), "eps is 0.0"),
        (lambda: orthogonalize(NAN), "G is NaN or infinite in some entries"),
        (lambda: frobenius_normalize(INFINITE), "G is NaN or infinite"),
        (lambda: frobenius_normalize(T, 0.0), "eps is 0.0"),
        (lambda: newton_schulz(NAN), "X is NaN"),
        (lambda: muon(T[0], T[0], T[0], 0.1), r"theta has shape \[3\]"),
        (lambda: muon(T, T, T, 0.1, beta=1.0), "beta is 1.0"),
        (lambda: muon(T, T, T, 0.1, decay=-0.1), "decay is -0.1"),
        (lambda: muon(T, T, T, -0.1), "rate is -0.1"),
        (lambda: muon(T, T, T, 0.1, steps=0), "steps is 0"),
        (lambda: muon(T, NAN, T, 0.1), "g is NaN"),
        (lambda: muon(T, T, T.half(), 0.1), "buffer is torch.float16"),
        (lambda: global_norm([]), "gradients is 0 tensors, wanted a list of at least one tensor"),
        (lambda: global_norm(T), "gradients is a Tensor, wanted a list"),
        (lambda: global_norm([T, 1.0]), "gradients is a float, wanted a tensor"),
        (lambda: clip_gradient(T, torch.tensor(1.0), 0.0), "limit is 0.0, wanted a number above zero"),
        (lambda: clip_gradient(T, torch.tensor(1.0), 1.0, -1.0), "eps is -1.0"),
        (lambda: clip_gradient(T, torch.tensor(-1.0), 1.0), "norm is −1, wanted a finite norm, zero or more"),
        (lambda: clip_gradient(T, torch.tensor(math.nan), 1.0), "norm is nan"),
        (lambda: clip_gradient(T, torch.ones(1), 1.0), r"norm has shape \[1\], wanted \[\]"),
        (lambda: clip_gradient(T, torch.tensor(1.0).double(), 1.0), "norm is torch.float64"),
        (lambda: difference_quotient(T, T, 0.0), "h is 0.0, wanted a finite number other than zero"),
        (lambda: difference_quotient(T, T, math.inf), "h is inf"),
        (lambda: difference_quotient(T, T.half(), 0.1), "f_here is torch.float16"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(EquationError, match=words):
        call()
