"""Softmax, log-softmax, entropies and divergence: properties, references, edges and bad input."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equation import Equation
from glassformer.equations.information import cross_entropy_between, entropy, kl_divergence, softmax_jacobian
from glassformer.equations.softmax import log_softmax, logsumexp, softmax
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.cases import cases
from tests.equations.drawing import Draw

CASES = settings(max_examples=100, deadline=None)
MANY = cases(100)
OF_LOGITS = [softmax, log_softmax, logsumexp]
OF_PROBABILITIES = [softmax_jacobian, entropy]
OF_TWO = [cross_entropy_between, kl_divergence]


def logits(draw: Draw, least: int = 1) -> Tensor:
    """Logits of any size, from gentle to extreme."""
    return draw.normal(*draw.lead(), draw.integer(least, 33)) * draw.choose(0.1, 1.0, 30.0, 1000.0)


@MANY
@given(data=st.data())
def test_probabilities_are_positive_and_sum_to_one(data: st.DataObject) -> None:
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64])))
    p = softmax(logits(draw))
    assert (p >= 0).all() and (p <= 1).all()
    assert_close(p.sum(-1), torch.ones_like(p.sum(-1)), rtol=0, atol=1e-6)


@CASES
@given(data=st.data())
def test_softmax_keeps_the_order_of_the_logits(data: st.DataObject) -> None:
    z = Draw(data).normal(4, 9)
    assert torch.equal(softmax(z).argsort(-1), z.argsort(-1))


@CASES
@given(data=st.data())
def test_softmax_ignores_a_common_shift(data: st.DataObject) -> None:
    draw = Draw(data)
    z = draw.normal(3, draw.integer(1, 9))
    shift = draw.normal(3, 1) * draw.choose(1.0, 1e3, 1e6)
    assert_close(softmax(z + shift), softmax(z), rtol=1e-8, atol=1e-8)


@CASES
@given(data=st.data())
def test_softmax_sharpens_as_logits_are_scaled_up(data: st.DataObject) -> None:
    draw = Draw(data)
    z = draw.normal(4, draw.integer(2, 9))
    gentle, sharp = softmax(z), softmax(draw.number(1.5, 5) * z)
    assert (sharp.amax(-1) > gentle.amax(-1)).all()
    assert (entropy(sharp) < entropy(gentle)).all()
    # Ratios of probabilities are powers of what they were: differences count, not the logits themselves.
    assert_close(softmax(2 * z), gentle.square() / gentle.square().sum(-1, keepdim=True))


def test_entropy_is_in_nats_as_its_words_say() -> None:
    coin, certain = entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)).tolist()
    assert coin == pytest.approx(math.log(2)) and certain == 0
    assert "nats" in entropy.meaning and f"{coin:.2f}" in entropy.intuition


@CASES
@given(data=st.data())
def test_softmax_is_smooth(data: st.DataObject) -> None:
    # No probability moves by more than half of the largest change of a logit: every row of |J| sums to 2p(1 − p) ≤ 1/2.
    draw = Draw(data)
    z = logits(draw)
    change = 1e-3 * draw.normal(*z.shape)
    moved = (softmax(z + change) - softmax(z)).abs().amax(-1)
    assert (moved <= 0.5 * change.abs().amax(-1) + 1e-12).all()


@pytest.mark.parametrize("run", ["fused", "fn"])
def test_each_vector_is_shifted_by_its_own_maximum(run: str) -> None:
    # With the maximum of the whole matrix the first vector would vanish to 0/0.
    z = torch.tensor([[-2000.0, -2001.0], [1000.0, 999.0]])
    expected = torch.tensor([1.0, math.exp(-1)]) / (1 + math.exp(-1))
    assert_close(getattr(softmax, run)(z), expected.expand(2, 2))


@CASES
@given(data=st.data())
def test_agreement_with_torch(data: st.DataObject) -> None:
    z = logits(Draw(data))
    assert_close(softmax.fn(z), torch.softmax(z, -1))
    assert_close(log_softmax.fn(z), functional.log_softmax(z, -1))
    assert_close(logsumexp.fn(z), torch.logsumexp(z, -1))
    assert_close(log_softmax(z), z - logsumexp(z).unsqueeze(-1))


def test_log_softmax_survives_where_the_probability_does_not() -> None:
    z = torch.tensor([0.0, -1000.0])
    assert softmax(z)[1] == 0
    assert_close(log_softmax(z), z)


@pytest.mark.parametrize("run", ["fused", "fn"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_of_nothing_but_minus_infinity_give_no_nan(run: str, dtype: torch.dtype) -> None:
    z = torch.tensor([[-torch.inf] * 3, [0.0, -torch.inf, 0.0]], dtype=dtype)
    assert getattr(softmax, run)(z).tolist() == [[0, 0, 0], [0.5, 0, 0.5]]
    log_p = getattr(log_softmax, run)(z)
    assert (log_p[0] == -torch.inf).all() and log_p[1, 1] == -torch.inf
    s = getattr(logsumexp, run)(z)
    assert s[0] == -torch.inf and s[1].item() == pytest.approx(math.log(2), rel=1e-2)


@pytest.mark.parametrize("equation", OF_LOGITS, ids=lambda e: e.name)
@pytest.mark.parametrize("run", ["fused", "fn"])
def test_gradients_of_masked_logits_are_never_nan(equation: Equation[..., Tensor], run: str) -> None:
    z = torch.tensor([[-torch.inf] * 3, [0.0, -torch.inf, 1.0]], dtype=torch.float64, requires_grad=True)
    y = getattr(equation, run)(z)
    seed = torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=y.dtype)
    (by_autograd,) = torch.autograd.grad(y, z, seed)
    with Tape() as tape:
        equation(z)
    by_rule = tape.reverse(seed)[z]
    assert by_rule.isfinite().all() and by_autograd.isfinite().all()
    # What reaches a score of −∞ itself is a matter of form where the result is −∞ too; elsewhere the two agree.
    reached = z > -torch.inf
    assert_close(by_rule[reached], by_autograd[reached])
    if equation is not log_softmax:
        assert_close(by_rule, by_autograd)


@CASES
@given(data=st.data())
def test_the_jacobian_is_that_of_softmax(data: st.DataObject) -> None:
    z = Draw(data).normal(5)
    by_autograd = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, -1), z)
    J = softmax_jacobian(softmax(z))
    assert_close(J, by_autograd)
    assert_close(J, torch.diag(softmax(z)) - torch.outer(softmax(z), softmax(z)))
    assert_close(J, J.mT)
    assert_close(J.sum(-1), torch.zeros_like(z), rtol=0, atol=1e-12)
    assert (torch.linalg.eigvalsh(J) >= -1e-12).all()


@CASES
@given(data=st.data())
def test_the_softmax_rule_is_its_jacobian_transposed(data: st.DataObject) -> None:
    draw = Draw(data)
    z, seed = draw.normal(3, 6), draw.normal(3, 6)
    with Tape() as tape:
        p = softmax(z)
    assert_close(tape.reverse(seed)[z], torch.einsum("rij,ri->rj", softmax_jacobian(p), seed))


@CASES
@given(data=st.data())
def test_cross_entropy_is_entropy_plus_divergence(data: st.DataObject) -> None:
    draw = Draw(data)
    shape = (*draw.lead(), draw.integer(1, 9))
    p, q = draw.distribution(*shape), draw.distribution(*shape)
    p = p.where(draw.flags(*shape) | (p == p.amax(-1, keepdim=True)), 0)
    p = p / p.sum(-1, keepdim=True)
    H, D = entropy(p), kl_divergence(p, q)
    assert_close(cross_entropy_between(p, q), H + D, rtol=1e-9, atol=1e-12)
    assert (D >= -1e-12).all(), "no code is shorter than the right one"
    assert (H >= -1e-12).all() and (math.log(shape[-1]) + 1e-12 >= H).all()
    assert_close(H, torch.special.entr(p).sum(-1))
    assert_close(D, functional.kl_div(q.log(), p, reduction="none").sum(-1))
    assert_close(kl_divergence(p, p), torch.zeros_like(D), rtol=0, atol=1e-12)


def test_extreme_distributions() -> None:
    sure, even = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    assert entropy(sure) == 0 and kl_divergence(sure, sure) == 0 and cross_entropy_between(sure, sure) == 0
    assert entropy(even).item() == pytest.approx(math.log(2))
    assert cross_entropy_between(even, sure) == torch.inf and kl_divergence(even, sure) == torch.inf
    assert kl_divergence(sure, even).item() == pytest.approx(math.log(2))


def test_gradients_at_a_probability_of_zero_are_never_nan() -> None:
    p = torch.tensor([0.25, 0.0, 0.75], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64, requires_grad=True)
    for equation, inputs in ((entropy, [p]), (kl_divergence, [p, q]), (cross_entropy_between, [p, q])):
        with Tape() as tape:
            y = equation(*inputs)
        gradients = tape.reverse()
        for tensor, by_autograd in zip(inputs, torch.autograd.grad(y, inputs), strict=True):
            assert by_autograd.isfinite().all()
            assert_close(gradients[tensor], by_autograd)
    z = torch.tensor([0.0, -torch.inf, 1.0], dtype=torch.float64, requires_grad=True)
    (through_softmax,) = torch.autograd.grad(entropy(softmax(z)), z)
    assert through_softmax.isfinite().all() and through_softmax[1] == 0


def test_numbers_of_the_sources() -> None:
    z = torch.tensor([2.0, 1.0, 0.2], dtype=torch.float64)
    assert softmax(z).tolist() == pytest.approx([0.6522398476607029, 0.23994563066716604, 0.10781452167213115])
    assert softmax(10 * z)[0].item() == pytest.approx(0.9999545869027009)
    J = softmax_jacobian(torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64))
    assert J[0].tolist() == pytest.approx([0.21, -0.07, -0.07, -0.07])
    assert J[1].tolist() == pytest.approx([-0.07, 0.09, -0.01, -0.01])
    p = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    q = torch.full((4,), 0.25, dtype=torch.float64)
    bits = [H.item() / math.log(2) for H in (cross_entropy_between(p, q), entropy(p), kl_divergence(p, q))]
    assert bits == pytest.approx([2.0, 1.5, 0.5])


@pytest.mark.parametrize("equation", OF_LOGITS, ids=lambda e: e.name)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_bad_logits_are_named(equation: Equation[..., Tensor], bad: float) -> None:
    with pytest.raises(EquationError, match=rf"^{equation.name}: z is NaN or infinite in some entries, wanted finite"):
        equation(torch.tensor([[0.0, bad]]))


@pytest.mark.parametrize("equation", [*OF_LOGITS, *OF_PROBABILITIES], ids=lambda e: e.name)
def test_empty_axes_and_lone_numbers_are_named(equation: Equation[..., Tensor]) -> None:
    with pytest.raises(EquationError, match=rf"^{equation.name}: \w is of shape \[2, 0\], wanted at least one"):
        equation(torch.ones(2, 0))
    with pytest.raises(EquationError, match=rf"^{equation.name}: \w has shape \[\], wanted \[\*batch n\]"):
        equation(torch.tensor(1.0))


@pytest.mark.parametrize("equation", [*OF_PROBABILITIES, *OF_TWO], ids=lambda e: e.name)
@pytest.mark.parametrize(
    ("p", "why"),
    [
        ([0.5, 0.6], r"distributions that sum to \[1.1"),
        ([1.5, -0.5], "negative or NaN"),
        ([torch.nan, 1.0], "negative or NaN"),
        ([torch.inf, 0.0], r"distributions that sum to \[inf\]"),
    ],
)
def test_what_is_no_distribution_is_named(equation: Equation[..., Tensor], p: list[float], why: str) -> None:
    good = torch.tensor([0.5, 0.5], dtype=torch.float64)
    bad = torch.tensor(p, dtype=torch.float64)
    for number in range(len(equation.parameters)):
        arguments = [good] * len(equation.parameters)
        arguments[number] = bad
        with pytest.raises(EquationError, match=rf"^{equation.name}: {equation.parameters[number].name} is {why}"):
            equation(*arguments)


@pytest.mark.parametrize("equation", OF_TWO, ids=lambda e: e.name)
def test_distributions_of_different_sizes_are_named(equation: Equation[..., Tensor]) -> None:
    with pytest.raises(EquationError, match=r"q has shape \[3\], wanted \[\*batch n\] with .*n = 2 \(from p\)"):
        equation(torch.full((2,), 0.5), torch.full((3,), 1 / 3))
    with pytest.raises(EquationError, match=r"q has shape \[2\], wanted \[\*batch n\] with batch = 1 \(from p\)"):
        equation(torch.full((1, 2), 0.5), torch.full((2,), 0.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rounded_softmaxes_count_as_distributions(dtype: torch.dtype) -> None:
    z = torch.randn(4, 5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert entropy(softmax(z.to(dtype))).isfinite().all()
