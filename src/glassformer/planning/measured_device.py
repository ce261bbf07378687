"""A device as it is measured here and now, in a few seconds: this machine's CPU, or a GPU that is not known by name."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional

from glassformer.equation import no_checks
from glassformer.equations.attention import attention
from glassformer.kernel_calls import KernelRecorder
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.onednn import cpu_capabilities, onednn_is_faster, onednn_linear
from glassformer.planning.device_spec import DeviceSpec, KernelRates
from glassformer.planning.example_batch import example_batch
from glassformer.planning.kernels import eager
from glassformer.planning.recorded_step import Labels, record_step, recorded
from glassformer.planning.roofline import python_calls, total_time
from glassformer.training.device import CPU, Device
from glassformer.training.estimate import memory_of
from glassformer.training.kept_memory import keep_memory, keeps_memory
from glassformer.training.objective import NEXT_TOKEN, LossModule

TRIAL, TRIES = 2**24, 5  # numbers of a copy, least tries of each measurement
WHILE = 0.2  # seconds for which each is tried
NUMBERS_OF_GELU = 2**22  # numbers of an activation that is timed
FEW, MANY = (8, 4, 64, 32), (1, 8, 512, 64)  # shapes of attention that are timed
FORWARD_AND_BACKWARD = 3.5  # operations of attention in forward ones
SMALL_PRODUCT = (256, 128, 128)  # rows, inputs and outputs of a product that its start takes a part of
ROWS, DIM = 1024, 512  # of a matrix whose rows are summed
WEIGHTS = (8192, 4096)  # of a layer that reads one row: more than a cache holds
TIMES_COLD = 15  # that the smallest model is run after much memory was read
LAUNCH = 3e-6  # seconds to start a kernel on a GPU that is measured, as on the H200
PROBE = GPTConfig(vocab=2000, context=64, dim=128, layers=3, heads=4)  # its kernels are small, as in the built-in tasks
ROWS_OF_PROBE = 8
LONGEST_START = 1e-4  # seconds; more is a measurement that was disturbed
SMALLEST = GPTConfig(vocab=16, context=8, dim=8, layers=4, heads=2)  # takes the time of its calls alone


@cache
def this_cpu() -> DeviceSpec:
    """The CPU of this machine: its rate in products, its bandwidth and its calls, measured in a few seconds."""
    return measured_device(Device(CPU), f"this machine's CPU, {torch.get_num_threads()} threads")


def measured_device(device: Device, name: str) -> DeviceSpec:
    """A device from what it does now."""
    x = torch.ones(TRIAL, device=device.device)
    y = torch.zeros_like(x)  # written already: the first touch of memory takes much longer than the next
    seconds = _least(device, lambda: torch.add(x, 1, out=y))
    gelu = _least(device, lambda: functional.gelu(x[:NUMBERS_OF_GELU]))
    peaks = {"float32": Device(device.device).peak()}
    if device.device.type == "cuda" or _bf16_units():
        peaks["bfloat16"] = Device(device.device, bf16=True).peak()
    found = DeviceSpec(
        name=name, kind=device.device.type, memory=float(memory_of(device.device)), bandwidth=2 * x.nbytes / seconds,
        peaks=peaks, achievable=1.0, bandwidth_fraction=1.0, pointwise=1.0, launch=LAUNCH,
        functions=NUMBERS_OF_GELU / gelu, source="measured here and now",
    )  # fmt: skip
    return _with_kernels_of_cpu(found, x) if found.kind == "cpu" else found


def _with_kernels_of_cpu(found: DeviceSpec, x: Tensor) -> DeviceSpec:
    """A CPU with what it does in single kernels, which can be far from its peaks.

    On a GPU shapes this small would measure launches: there they are fractions of the peaks, as of a known device.
    """
    hot, cold = _call_seconds()
    alone = replace(
        found, launch=0.0, dispatch=hot, cold_dispatch=cold,
        bandwidth_fraction=min(_reading_rate() / found.bandwidth, 1.0),
        first_touch=math.inf if keeps_memory() else x.nbytes / _least(Device(CPU), lambda: torch.ones(TRIAL)),
        kernels={dtype: _kernels(dtype, peak) for dtype, peak in found.peaks.items()},
    )  # fmt: skip
    in_step = {
        dtype: replace(rates, kernel_start=_kernel_start(alone, dtype)) for dtype, rates in alone.kernels.items()
    }
    return replace(alone, kernels=in_step)


def _kernels(dtype: str, peak: float) -> KernelRates:
    """What single kernels do alone, again and again."""
    rate, keys = attention_rate(_attention_seconds(FEW, dtype), _attention_seconds(MANY, dtype))
    return KernelRates(attention=rate, few_keys=keys, sums=_sum_rate(dtype), product_start=_product_start(dtype, peak))


def _least(device: Device, work: Callable[[], object]) -> float:
    """The least seconds that some work takes, tried for a while: other processes only add to it."""
    found, end = [device.timed(work)], time.perf_counter() + WHILE
    while len(found) < TRIES or time.perf_counter() < end:
        found.append(device.timed(work))
    return min(found)


def _attention_seconds(shape: Sequence[int], dtype: str) -> tuple[int, float]:
    """The keys of attention, and the seconds of an operation in its forward and backward pass."""
    batch, heads, length, dim = shape
    q = torch.randn(*shape, dtype=getattr(torch, dtype), requires_grad=True)

    def attend() -> None:
        with no_checks():
            attention(q, q, q).sum().backward()

    return length, _least(Device(CPU), attend) / (FORWARD_AND_BACKWARD * 4 * batch * heads * length**2 * dim)


def attention_rate(few: tuple[int, float], many: tuple[int, float]) -> tuple[float, float]:
    """Operations per second of attention with many keys, and the keys with which it reaches half of that.

    An operation takes a + b/n seconds with n keys.
    """
    (n, slow), (m, fast) = few, many
    b = max((slow - fast) / (1 / n - 1 / m), 0.0)
    a = max(fast - b / m, fast / 4)  # of measurements that were disturbed
    return 1 / a, max(b / a, 1e-3)


def _product_start(dtype: str, peak: float) -> float:
    """Seconds that a product takes beyond those of its operations at the peak."""
    rows, inputs, outputs = SMALL_PRODUCT
    x, weight = (torch.ones(size, dtype=getattr(torch, dtype)) for size in ((rows, inputs), (inputs, outputs)))
    return max(_least(Device(CPU), lambda: x @ weight) - 2 * rows * inputs * outputs / peak, 1e-9)


def _reading_rate() -> float:
    """Bytes per second at which a product of one row reads weights that no cache holds, as in decoding."""
    weight = torch.ones(WEIGHTS)
    return weight.nbytes / _least(Device(CPU), partial(_read, weight))


def _read(weight: Tensor) -> Tensor:
    """The product of one row with weights."""
    product = onednn_linear if onednn_is_faster() else functional.linear
    return product(torch.ones(1, WEIGHTS[1]), weight, None)


def _call_seconds() -> tuple[float, float]:
    """Seconds of a call from Python in the smallest model: again and again, and after much memory was read."""
    model, ids, labels = build(SMALLEST), torch.zeros(1, SMALLEST.context, dtype=torch.long), Labels()
    with no_checks():
        with labels.on(model, []), KernelRecorder(labels.tag) as recorder:
            model(ids)
        calls = python_calls([(kernel, 1) for kernel in eager(recorded(recorder, [], len(ids)))[0]])
        hot = _least(Device(CPU), lambda: model(ids))
        cold, weight = [], torch.ones(WEIGHTS)
        with torch.no_grad():
            for _ in range(TIMES_COLD):
                _read(weight)
                cold.append(Device(CPU).timed(lambda: model(ids)))
    return hot / calls, statistics.median(cold) / calls


def _kernel_start(alone: DeviceSpec, dtype: str) -> float:
    """Seconds that a kernel takes longer in a training step than alone, where its inputs and its code are in caches."""
    keep_memory()  # as training does
    model = build(PROBE)
    batch = example_batch(model, NEXT_TOKEN, ROWS_OF_PROBE, PROBE.context)
    module, device = LossModule(model, NEXT_TOKEN).train(), Device(CPU, bf16=dtype == "bfloat16")

    def step() -> None:
        with no_checks(), device.autocast():
            module(batch)[0].backward()
        model.zero_grad()

    probe = record_step(model, NEXT_TOKEN, ROWS_OF_PROBE, PROBE.context, dtype)
    kernels = [(kernel, probe.repeats[kernel.at]) for kernel in eager(probe)[0]]
    predicted = total_time(kernels, alone, dtype, alone.dispatch)
    return min(max((_least(device, step) - predicted.seconds) / predicted.kernels, 1e-9), LONGEST_START)


def _sum_rate(dtype: str) -> float:
    """Bytes per second of a sum over the rows of a matrix, as in the gradient of a bias."""
    x = torch.ones(ROWS, DIM, dtype=getattr(torch, dtype))
    return x.nbytes / _least(Device(CPU), lambda: x.sum(0))


def _bf16_units() -> bool:
    units = cpu_capabilities()
    return bool(units.get("amx_bf16") or units.get("avx512_bf16"))
