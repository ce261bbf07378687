"""Which device and which type of numbers a run takes, and what is said about one that is not there."""

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.training import device
from glassformer.training.device import Device, choose_device


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)


def bf16_units(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": there})


@pytest.mark.parametrize("there", [True, False])
def test_a_processor_computes_in_half_only_if_it_has_units_for_it(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    bf16_units(monkeypatch, there)
    assert choose_device("cpu", "auto", "auto") == Device(torch.device("cpu"), bf16=there, compile=False)
    assert choose_device("cpu", "float32", "yes") == Device(torch.device("cpu"), bf16=False, compile=True)
    assert choose_device("cpu", "bfloat16", "no").bf16


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_is_taken_if_there_is_one_and_each_process_takes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device("auto", "auto", "auto") == Device(torch.device("cuda", 0), bf16=True, compile=None)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("auto", "float32", "no") == Device(torch.device("cuda", 1))
    assert choose_device("cuda:1", "auto", "auto").device.index == 1
    assert choose_device("cpu", "auto", "auto").device.type == "cpu"
    assert choose_device("auto", "auto", "auto").asynchronous and not Device().asynchronous


@pytest.mark.parametrize("name", ["gpu", "tpu:0", "", "meta", "mps"])
def test_a_device_that_cannot_be_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"device is '{name}', wanted auto, cpu, cuda or cuda:1"):
        choose_device(name, "auto", "auto")


@pytest.mark.usefixtures("two_gpus")
def test_a_device_too_many_is_named() -> None:
    with pytest.raises(ConfigError, match="device is 'cuda:2', and this machine has 2 CUDA devices"):
        choose_device("cuda:2", "auto", "auto")


def test_half_precision_is_for_products_alone() -> None:
    x = torch.ones(2, 2)
    with Device(bf16=True).autocast():
        assert (x @ x).dtype == torch.bfloat16 and x.dtype == torch.float32
    with Device().autocast():
        assert (x @ x).dtype == torch.float32


def test_the_peak_is_operations_over_the_fastest_of_some_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(device.MATRIX, "cpu", 10)
    times = iter([3.0, 2.0, 4.0, 2.5, 9.0])
    monkeypatch.setattr(Device, "timed", lambda self, work: next(times))
    assert Device().peak() == 2 * 1000 / 2.0
