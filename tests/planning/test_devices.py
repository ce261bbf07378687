"""Devices: which GPU is a known one, what a file of devices may say, and where steps can be measured."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import known_gpu, require_here
from glassformer.planning.known_devices import devices
from glassformer.planning.measured_device import attention_rate, this_cpu

HERE = DeviceSpec(name="here", kind="cpu", memory=8e9, bandwidth=1e10, peaks={"float32": 1e11})


@pytest.mark.parametrize(
    ("name", "memory", "known"),
    [
        ("NVIDIA H200", 150.1, "h200"),
        ("NVIDIA H100 80GB HBM3", 85.0, "h100"),
        ("NVIDIA A100-SXM4-80GB", 85.1, "a100"),
        ("NVIDIA L4", 23.7, "l4"),
        ("Tesla T4", 15.8, "t4"),
        ("NVIDIA GeForce RTX 4090", 25.3, "rtx4090"),
        ("NVIDIA GeForce RTX4090", 25.3, "rtx4090"),
        ("AMD Instinct MI300X", 206.1, "mi300x"),
        ("NVIDIA L40S", 24.0, None),
        ("Tesla M10", 16.0, None),  # m1 is Apple's
        ("NVIDIA T400", 16.0, None),
        ("NVIDIA GH200 480GB", 150.0, None),
        ("NVIDIA H100 PCIe", 85.0, None),
        ("NVIDIA H100 NVL", 85.0, None),
        ("NVIDIA A100 80GB PCIe", 85.1, None),
        ("NVIDIA A100-PCIE-80GB", 85.1, None),
        ("NVIDIA A100-SXM4-40GB", 42.5, None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 85.0, None),
        ("NVIDIA GeForce RTX 4090 D", 25.3, None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 24.0, None),
        ("NVIDIA GeForce RTX 3090", 25.3, None),
    ],
)
def test_a_gpu_is_known_by_a_whole_word_of_its_name(name: str, memory: float, known: str | None) -> None:
    found = known_gpu(name, memory * 1e9, devices())
    assert found == (None if known is None else replace(devices()[known], memory=memory * 1e9))


def test_single_kernels_of_a_cpu_are_measured() -> None:
    spec = this_cpu()
    assert spec.kernels.keys() == spec.peaks.keys()
    assert all(0 < rate < math.inf for rates in spec.kernels.values() for rate in vars(rates).values())
    assert 0 < spec.dispatch < 1e-3 and 0 < spec.bandwidth_fraction <= 1
    assert spec.cold_dispatch > spec.dispatch  # caches hold nothing of the calls


@pytest.mark.parametrize(("rate", "keys"), [(2e11, 100.0), (5e10, 0.001)])
def test_the_rate_of_attention_is_found_from_two_lengths(rate: float, keys: float) -> None:
    few, many = ((n, (1 + keys / n) / rate) for n in (64, 512))
    assert attention_rate(few, many) == pytest.approx((rate, keys), rel=1e-6)


def test_attention_that_seems_slower_with_more_keys_has_one_rate() -> None:
    rate, keys = attention_rate((64, 1e-11), (512, 2e-11))
    assert rate == pytest.approx(5e10) and keys == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("achievable = 1.2", "achievable is 1.2, wanted a fraction above 0, at most 1"),
        ("attention = 0", "attention is 0, wanted a fraction"),
        ("bandwidth_fraction = -0.5", "bandwidth_fraction is -0.5, wanted a fraction"),
        ("pointwise = true", "pointwise is True, wanted a fraction"),
        ('kind = "tpu"', "kind is 'tpu', wanted cuda, cpu, mps"),
        ("memory = true", "memory is True, wanted a number above 0"),
        ("memory = inf", "memory is inf, wanted a number above 0"),
        ("bandwidth = 0", "bandwidth is 0, wanted a number above 0"),
        ("peaks = { float32 = true }", "peaks.float32 is True, wanted a number above 0"),
        ("peaks = { float32 = 1, bfloat16 = -3 }", "peaks.bfloat16 is -3, wanted a number above 0"),
        ("peaks = { bfloat16 = 3 }", "wanted TFLOP/s by dtype, float32 among them"),
        ("peaks = 3", "peaks is 3, wanted TFLOP/s by dtype"),
        ("power = inf", "power is inf, wanted a number, 0 or more"),
        ("price = -1", "price is -1, wanted a number, 0 or more"),
        ("price = nan", "price is nan, wanted a number, 0 or more"),
        ("power = false", "power is False, wanted a number"),
        ("launch = -1", "launch is -1, wanted a number, 0 or more"),
        ("functions = 0", "functions is 0, wanted a number above 0, or inf"),
        ("kernels = { float32 = { sums = 0.0 } }", "has no kernels"),
        ("name = 3", "Expected `str`"),
    ],
)
def test_a_value_that_a_device_cannot_have_is_named(tmp_path: Path, line: str, said: str) -> None:
    path, key = tmp_path / "own.toml", line.partition(" ")[0]
    sound = {"memory": "10", "bandwidth": "100", "peaks": "{ float32 = 1 }"}
    lines = [f"{name} = {value}" for name, value in sound.items() if name != key]
    path.write_text("\n".join(["[mine]", *lines, line]), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        devices(path)
    assert str(path) in str(raised.value) and "mine" in str(raised.value) and said in str(raised.value)


def test_every_source_names_a_document_and_every_price_a_date() -> None:
    for name, spec in devices().items():
        assert "https://" in spec.source, name
        assert "measured" in spec.source or "from memory" in spec.source, name
        assert bool(spec.price) == bool(spec.checked), name


@pytest.mark.parametrize("name", ["h200", "t4", "m1"])
def test_steps_for_another_device_are_not_measured_here(name: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine may have that device")
    with pytest.raises(ConfigError, match="steps can only be measured on this machine's; wanted auto or cpu"):
        require_here(devices()[name])
    require_here(HERE)
