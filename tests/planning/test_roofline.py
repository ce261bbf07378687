"""Kernels by roofline: calls from Python, short attention, products that take a while to begin."""

from dataclasses import replace

import pytest

from glassformer.planning.device_spec import DeviceSpec, KernelRates
from glassformer.planning.kernel_data import BACKWARD, FORWARD, Kernel, Tag
from glassformer.planning.roofline import FURTHER, OPERATIONS, WITHOUT_PYTHON, kernel_time, python_calls

DEVICE = DeviceSpec(
    name="made up", kind="cpu", memory=1e9, bandwidth=1e30, peaks={"float32": 1e12}, achievable=1.0, launch=0.0
)


def kernel(equation: str, kind: str = "other", phase: str = FORWARD, **sizes: int) -> Kernel:
    numbers = {"flops": 0, "bytes": 0, "numbers": 0, **sizes}
    return Kernel(at=0, kind=kind, tag=Tag(equation, phase, ""), names=("aten.mul.Tensor",), **numbers)


def test_an_equation_is_one_call_and_its_further_kernels_take_less() -> None:
    norm = [(kernel("rms_norm"), 1)] * 4
    assert python_calls(norm) == pytest.approx(1 + 3 * FURTHER)
    assert python_calls([*norm, *norm[:1]]) == pytest.approx(1 + 4 * FURTHER)
    assert python_calls([norm[0], (kernel("add"), 1), norm[0]]) == 3


def test_every_product_is_a_call_and_calls_are_repeated_with_their_block() -> None:
    assert python_calls([(kernel("linear", "matmul"), 10)] * 2) == 20


def test_autograd_calls_kernels_without_python() -> None:
    assert python_calls([(kernel("linear", "matmul", BACKWARD), 1)] * 4) == pytest.approx(4 * WITHOUT_PYTHON)


def test_attention_reaches_half_of_its_rate_with_few_keys() -> None:
    device = replace(DEVICE, kernels={"float32": KernelRates(attention=1e10, few_keys=100.0)})
    seconds = {}
    for keys in (100, 100_000):
        attention = kernel("attention", "attention", flops=10**9, numbers=round(10**9 / OPERATIONS / keys))
        seconds[keys] = kernel_time(attention, device, "float32").seconds
    assert seconds[100] == pytest.approx(0.2, rel=1e-3) and seconds[100_000] == pytest.approx(0.1, rel=2e-3)


def test_products_and_kernels_take_a_while_to_begin() -> None:
    device = replace(DEVICE, kernels={"float32": KernelRates(product_start=3e-6, kernel_start=2e-6)})
    assert kernel_time(kernel("linear", "matmul"), device, "float32").seconds == pytest.approx(5e-6)
    assert kernel_time(kernel("add"), device, "float32").seconds == pytest.approx(2e-6)
