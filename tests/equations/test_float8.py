"""Linear layers in 8-bit floats: against a table of all such floats, a float64 formula, and autograd."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.equation import no_checks
from glassformer.equations import float8
from glassformer.equations.float8 import fake_quantize_float8, float8_linear, quantize_gradient_float8
from glassformer.errors import EquationError
from glassformer.torch_private import scaled_mm
from tests.cases import cases

SIZES = st.sampled_from([16, 32, 48])
SEEDS = st.integers(0, 2**31 - 1)
FORMS = pytest.mark.parametrize("form", ["fn", "fused"])


def every_float8(exponent_bits: int, largest: float) -> Tensor:
    """All finite numbers with a sign, some bits of exponent and the rest of mantissa, in order."""
    mantissa_bits = 7 - exponent_bits
    bias, steps = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    subnormal = [m / steps * 2.0 ** (1 - bias) for m in range(steps)]
    normal = [(1 + m / steps) * 2.0 ** (e - bias) for e in range(1, 2**exponent_bits) for m in range(steps)]
    positive = [x for x in subnormal + normal if x <= largest]
    return torch.tensor(sorted({sign * x for x in positive for sign in (1, -1)}), dtype=torch.float64)


E4M3, E5M2 = every_float8(4, 448.0), every_float8(5, 57344.0)


def scale_of(x: Tensor, table: Tensor) -> float:
    """The least power of two by which the largest number can be divided to fit."""
    s = 2.0**-130
    while float(x.abs().max()) / s > float(table[-1]):
        s *= 2
    return s


def nearest(x: Tensor, table: Tensor) -> Tensor:
    """Numbers rounded to the nearest of a table, scaled; of two as near, to the one with an even last bit."""
    s = scale_of(x, table)
    away = (x.double()[..., None] / s - table).abs()
    tied = away == away.amin(-1, keepdim=True)
    even = (torch.arange(len(table)) - len(table) // 2) % 2 == 0  # zero is in the middle
    return s * table[(tied * (1 + even.double())).argmax(-1)]


def drawn(seed: int, *shape: int, spread: float = 3.0) -> Tensor:
    """Numbers of many sizes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator) * torch.exp2(spread * torch.randn(shape, generator=generator))


def test_the_tables_are_those_of_the_format() -> None:
    for table, dtype in ((E4M3, torch.float8_e4m3fn), (E5M2, torch.float8_e5m2)):
        values = torch.arange(256, dtype=torch.uint8).view(dtype).double()
        assert torch.equal(values[values.isfinite()].unique(), table)


@cases(40)
@given(seed=SEEDS, rows=st.integers(1, 9), size=st.integers(1, 40), power=st.integers(-30, 30))
def test_numbers_become_the_nearest_float8(seed: int, rows: int, size: int, power: int) -> None:
    x = drawn(seed, rows, size) * 2.0**power
    assert torch.equal(fake_quantize_float8(x).double(), nearest(x, E4M3))
    assert torch.equal(fake_quantize_float8(x.bfloat16()).double(), nearest(x.bfloat16(), E4M3)), "exact there too"
    z = quantize_gradient_float8(leaf := x.clone().requires_grad_())
    assert torch.equal(z, x)
    assert torch.equal(torch.autograd.grad(z, leaf, x)[0].double(), nearest(x, E5M2))


def test_rounding_by_hand() -> None:
    x = torch.tensor([[448.0, 17.0, 19.0, -0.3]])  # from 16 to 32 each second number is there, ties go to even ones
    assert torch.equal(fake_quantize_float8(x), torch.tensor([[448.0, 16.0, 20.0, -0.3125]]))
    assert torch.equal(fake_quantize_float8(2 * x), 2 * fake_quantize_float8(x))
    assert fake_quantize_float8.cell((0, 3), 2 * x) == "2·(−0.3125) = −0.625"


@FORMS
@cases(40)
@given(seed=SEEDS, rows=st.integers(1, 40), inputs=SIZES, outputs=SIZES, bias=st.booleans())
def test_it_is_the_product_of_what_was_rounded(
    form: str, seed: int, rows: int, inputs: int, outputs: int, bias: bool
) -> None:
    x, W = drawn(seed, rows, inputs), drawn(seed + 1, inputs, outputs)
    b = drawn(seed + 2, outputs) if bias else None
    y = getattr(float8_linear, form)(x, W, b)
    exact = nearest(x, E4M3) @ nearest(W, E4M3) + (0 if b is None else b.double())
    size = nearest(x, E4M3).abs() @ nearest(W, E4M3).abs() + (0 if b is None else b.double().abs())
    assert ((y.double() - exact).abs() <= 2.0**-24 * (inputs + 2) * size).all(), "more than float32 sums round"


@FORMS
@cases(40)
@given(seed=SEEDS, rows=st.integers(1, 40), inputs=SIZES, outputs=SIZES)
def test_the_error_is_what_three_bits_of_mantissa_permit(
    form: str, seed: int, rows: int, inputs: int, outputs: int
) -> None:
    x, W = drawn(seed, rows, inputs, spread=1.0), drawn(seed + 1, inputs, outputs, spread=1.0)
    y = getattr(float8_linear, form)(x, W)
    # Half of a last bit, 1/16 of a number, or half of the smallest number there is, scaled.
    x_off, W_off = (torch.maximum(t.abs() / 16, torch.tensor(scale_of(t, E4M3) * 2.0**-10)).double() for t in (x, W))
    bound = x_off @ W.abs().double() + x.abs().double() @ W_off + x_off @ W_off
    assert ((y.double() - x.double() @ W.double()).abs() <= bound * (1 + 1e-5)).all()
    assert not torch.allclose(y, x @ W, rtol=1e-4), "nothing was rounded"


def straight_through(x: Tensor, W: Tensor, b: Tensor | None, y_bar: Tensor) -> tuple[Tensor, ...]:
    """Gradients by autograd in float64, as if nothing had been rounded, of the rounded product and gradient."""
    leaves = [t.double().requires_grad_() for t in (x, W)]
    x_hat, W_hat = (nearest(t, E4M3) + (leaf - leaf.detach()) for t, leaf in zip((x, W), leaves, strict=True))
    gradients = torch.autograd.grad(x_hat @ W_hat, leaves, nearest(y_bar, E5M2))
    return gradients if b is None else (*gradients, y_bar.double().sum(0))


@FORMS
@cases(40)
@given(seed=SEEDS, rows=st.integers(1, 40), inputs=SIZES, outputs=SIZES, bias=st.booleans())
def test_gradients_are_those_of_the_straight_through_form(
    form: str, seed: int, rows: int, inputs: int, outputs: int, bias: bool
) -> None:
    x, W, y_bar = drawn(seed, rows, inputs), drawn(seed + 1, inputs, outputs), 1e-6 * drawn(seed + 3, rows, outputs)
    b = drawn(seed + 2, outputs) if bias else None
    leaves = [t.clone().requires_grad_() for t in (x, W, b) if t is not None]
    found = torch.autograd.grad(getattr(float8_linear, form)(*leaves), leaves, y_bar)
    for one, other in zip(found, straight_through(x, W, b, y_bar), strict=True):
        assert one.dtype == torch.float32
        assert_close(one.double(), other, rtol=1e-5, atol=1e-5 * float(other.abs().max()))


@cases(20)
@given(seed=SEEDS, rows=st.integers(1, 40), bias=st.booleans(), lead=st.booleans())
def test_autocast_gives_bfloat16_and_keeps_weight_gradients_in_float32(
    seed: int, rows: int, bias: bool, lead: bool
) -> None:
    x, W, b = drawn(seed, rows, 32), drawn(seed + 1, 32, 16).requires_grad_(), drawn(seed + 2, 16).requires_grad_()
    x = (x[None] if lead else x).bfloat16().requires_grad_()
    with no_checks(), torch.autocast("cpu", torch.bfloat16):
        y = float8_linear(x, W, b if bias else None)
    product = nearest(x.detach(), E4M3) @ nearest(W.detach(), E4M3)
    exact = product + (b.detach().bfloat16().double() if bias else 0)
    assert y.dtype == torch.bfloat16 and y.shape == (*x.shape[:-1], 16)
    room = 2.0**-8 * (product.abs() + exact.abs()) * 1.01  # the product may be rounded before the bias is added
    assert ((y.double() - exact).abs() <= room).all()
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.bfloat16
    assert W.grad is not None and W.grad.dtype == torch.float32
    assert_close(W.grad.double(), nearest(x.detach(), E4M3).reshape(-1, 32).sum(0)[:, None].expand(32, 16))
    assert b.grad is None or torch.equal(b.grad, torch.full((16,), float(rows)))


@FORMS
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", ["x", "W"])
def test_what_is_not_finite_is_not_hidden(form: str, bad: float, where: str) -> None:
    x, W = torch.ones(16, 16), torch.ones(16, 16)
    (x if where == "x" else W)[3, 5] = bad
    y = getattr(float8_linear, form)(x.requires_grad_(), W.requires_grad_())
    assert not (y[3] if where == "x" else y[:, 5]).isfinite().any()
    gradient = torch.ones(16, 16)
    gradient[2, 7] = bad
    found = torch.autograd.grad(getattr(float8_linear, form)(torch.ones_like(x), W), W, gradient)[0]
    assert not found[:, 7].isfinite().any()


@FORMS
def test_zeros_stay_zeros(form: str) -> None:
    x, W = torch.zeros(2, 16, requires_grad=True), torch.zeros(16, 32, requires_grad=True)
    y = getattr(float8_linear, form)(x, W)
    gradients = torch.autograd.grad(y, (x, W), torch.zeros_like(y))
    assert all(torch.equal(t, torch.zeros_like(t)) for t in (y, *gradients))


def test_without_a_kernel_the_plain_form_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x, W = drawn(0, 5, 16), drawn(1, 16, 32)
    fused = float8_linear(x, W)
    monkeypatch.setattr(float8, "scaled_mm", None)  # nobody calls it
    odd = float8_linear(x[:, :15], W[:15])
    assert_close(odd.double(), nearest(x[:, :15], E4M3) @ nearest(W[:15], E4M3), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(float8, "has_scaled_mm", lambda kind, index: False)
    assert_close(float8_linear(x, W), fused)


def test_bad_input_is_named() -> None:
    with pytest.raises(EquationError, match=r"float8_linear: x is of shape \[0, 16\], wanted at least one number"):
        float8_linear(torch.zeros(0, 16), torch.zeros(16, 16))


@cases(30)
@given(seed=SEEDS, rows=st.integers(1, 40), inputs=SIZES, outputs=SIZES, turned=st.booleans())
def test_what_a_gpu_asks_of_matrices_is_kept(seed: int, rows: int, inputs: int, outputs: int, turned: bool) -> None:
    shapes = []

    def asking(a: Tensor, b: Tensor, *others: object, **named: object) -> Tensor:
        assert a.stride() == (a.shape[1], 1) and b.stride() == (1, b.shape[0]), "one by rows, the other by columns"
        assert not a.shape[1] % 16 and not b.shape[1] % 16
        assert ({a.dtype, b.dtype} <= {float8.E4M3, float8.E5M2} and a.dtype == float8.E4M3) or b.dtype == float8.E4M3
        shapes.append((*a.shape, b.shape[1]))
        return scaled_mm(a, b, *others, **named)  # pyright: ignore[reportArgumentType]

    x, W = drawn(seed, rows, inputs), drawn(seed + 1, inputs, outputs).requires_grad_()
    x = (x.T.contiguous().T if turned else x).requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(float8, "scaled_mm", asking)
        y = float8_linear(x, W)
        torch.autograd.grad(y, (x, W), drawn(seed + 2, outputs, rows).T if turned else torch.ones_like(y))
    padded = rows + -rows % 16
    assert shapes == [(rows, inputs, outputs), (rows, outputs, inputs), (inputs, padded, outputs)]


@pytest.mark.parametrize(("needed", "products"), [("x", 2), ("W", 2), ("b", 1), ("xWb", 3)])
def test_only_the_gradients_that_are_needed_are_computed(
    needed: str, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[torch.Size] = []

    def noted(a: Tensor, *others: object, **named: object) -> Tensor:
        made.append(a.shape)
        return scaled_mm(a, *others, **named)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(float8, "scaled_mm", noted)
    leaves = {"x": drawn(0, 5, 16), "W": drawn(1, 16, 32), "b": drawn(2, 32)}
    y = float8_linear(*(t.requires_grad_(name in needed) for name, t in leaves.items()))
    y.square().sum().backward()
    assert [name for name, t in leaves.items() if t.grad is not None] == list(needed)
    assert len(made) == products
