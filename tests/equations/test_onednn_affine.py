"""Affine maps by oneDNN in training: they agree with torch's, for any strides, and so do their gradients."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from glassformer import onednn
from glassformer.equations import onednn_affine
from glassformer.equations.algebra import linear
from glassformer.equations.embedding import unembed
from glassformer.equations.onednn_affine import affine, training_affine
from tests.equations.drawing import Draw

CASES = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEAR = {"rtol": 1e-4, "atol": 1e-4}  # sums of a few numbers near one, in another order
pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, onednn.ONEDNN_LINEAR), reason="torch without the linear layer of oneDNN"
)


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.Size]]:
    """Products of any size by oneDNN, whatever the processor, and the shapes of those that were computed."""
    made: list[torch.Size] = []

    def noted(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        made.append(x.shape)
        return onednn.onednn_linear(x, weight, bias)

    monkeypatch.setattr(onednn_affine, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(onednn_affine, "onednn_linear", noted)
    monkeypatch.setattr(onednn_affine, "LEAST_PRODUCT", 0)
    yield made


def weights(draw: Draw, inputs: int, outputs: int) -> Tensor:
    """A matrix [inputs, outputs] with the strides that layers, slices and expanded tensors have."""
    return draw.choose(
        torch.randn(inputs, outputs),
        torch.randn(outputs, inputs).T,
        torch.randn(inputs, 3 * outputs)[:, outputs : 2 * outputs],
        torch.randn(3 * outputs, inputs)[outputs : 2 * outputs].T,
        torch.randn(2 * inputs, outputs)[::2],
        torch.randn(inputs, 2 * outputs)[:, ::2],
        torch.randn(inputs, 1).expand(-1, outputs),
        torch.randn(1, outputs).expand(inputs, -1),
    )


def biases(draw: Draw, outputs: int) -> Tensor | None:
    strided = torch.randn(2 * outputs)[::2], torch.randn(outputs, 3)[:, 1], torch.randn(1).expand(outputs)
    return draw.choose(None, torch.randn(outputs), *strided)


def dense(W: Tensor) -> bool:
    return W.is_contiguous() or W.T.is_contiguous()


@CASES
@given(data=st.data())
def test_outputs_and_gradients_are_those_of_torch(data: st.DataObject, calls: list[torch.Size]) -> None:
    draw = Draw(data)
    inputs, outputs = draw.integer(1, 20), draw.integer(1, 20)
    x = torch.randn(*draw.lead(), draw.integer(1, 9), inputs, requires_grad=True)
    W, b = weights(draw, inputs, outputs).requires_grad_(), biases(draw, outputs)
    wanted = [x, W] if b is None else [x, W, b.requires_grad_()]
    calls.clear()
    ours, theirs = affine(x, W, b), functional.linear(x, W.T, b)
    row = torch.randn(outputs).expand_as(ours)
    seed = draw.choose(torch.randn_like(ours), torch.ones(()).expand_as(ours), row)
    assert_close(ours, theirs, **NEAR)
    assert_close(torch.autograd.grad(ours, wanted, seed), torch.autograd.grad(theirs, wanted, seed), **NEAR)
    assert len(calls) == (2 + dense(seed.reshape(-1, outputs)) if dense(W) else 0), "the reference product is slow"


def test_only_the_gradients_that_are_needed_are_computed(calls: list[torch.Size]) -> None:
    x, W = torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)
    affine(x, W).square().sum().backward()
    assert W.grad is not None and len(calls) == 2


def test_gradients_of_gradients_are_those_of_torch() -> None:
    x, W = torch.randn(4, 3, requires_grad=True), torch.randn(3, 5, requires_grad=True)

    def penalty(y: Tensor) -> Tensor:
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


def test_it_is_the_fast_form_of_linear_and_unembed(calls: list[torch.Size]) -> None:
    x, W, b = torch.randn(4, 3), torch.randn(3, 5), torch.randn(5)
    assert_close(linear(x, W, b), linear.fn(x, W, b), **NEAR)
    assert_close(unembed(x, W.T), unembed.fn(x, W.T), **NEAR)
    assert len(calls) == 2


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_inference_leaves_no_kernels_in_memory(without_gradients: type, calls: list[torch.Size]) -> None:
    x, W, b = torch.randn(4, 3), torch.randn(3, 5), torch.randn(5)
    with without_gradients():
        assert torch.equal(affine(x, W, b), functional.linear(x, W.T, b))
        assert not calls
        assert_close(training_affine(x, W, b), functional.linear(x, W.T, b), **NEAR)
    assert len(calls) == 1, "a part of training that autograd does not see"


def test_a_torch_that_cannot_name_the_processor_has_no_faster_product(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.planning.measured_device import _bf16_units

    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    found = onednn.onednn_is_faster.__wrapped__
    monkeypatch.setattr(onednn_affine, "onednn_is_faster", found)
    assert onednn.cpu_capabilities() == {} and not found() and not _bf16_units()
    x, W = torch.randn(4, 3), torch.randn(3, 5)
    assert torch.equal(linear(x, W), functional.linear(x, W.T))


@pytest.mark.parametrize(("instructions", "name", "faster"), [
    ("AVX512", "AMD EPYC 9575F", True), ("AVX512", "Intel(R) Xeon(R)", False), ("AVX512", None, False),
    ("AVX2", "AMD EPYC 7763", False),
])  # fmt: skip
def test_the_faster_product_is_for_avx512_of_amd(
    instructions: str, name: str | None, faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    monkeypatch.setattr(onednn, "cpu_capabilities", lambda: {} if name is None else {"cpu_name": name})
    assert onednn.onednn_is_faster.__wrapped__() == faster
