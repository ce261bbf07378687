"""Seconds of kernels on a device: what limits each, arithmetic or memory, plus the start of every kernel."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.kernel_data import FORWARD, Kernel

SUM = "aten.sum.dim_IntList"
FURTHER = 0.25  # of the seconds of a call from Python: those of every further kernel of the same equation
WITHOUT_PYTHON = 0.75  # likewise: those of a kernel that autograd calls, on a CPU
NUMBER = 8  # bytes of a number that is read and written
OPERATIONS = 3.6  # of attention for each number of its results and each of its keys, forward and backward
FUNCTIONS = ("gelu", "tanh", "exp", "erf", "softmax", "sigmoid", "silu", "log", "pow", "sin", "cos", "bernoulli")


@dataclass(frozen=True)
class KernelTime:
    """The seconds of one kernel, and what limits it."""

    seconds: float
    limit: str


def kernel_time(kernel: Kernel, device: DeviceSpec, dtype: str) -> KernelTime:
    """Seconds of a kernel by roofline: the larger of its arithmetic and its traffic (Williams et al., 2009).

    A matrix product near the corner of the roofline reaches neither limit: there both add up like the sides of a right
    triangle.
    """
    moving = kernel.bytes / (
        device.bandwidth * (device.pointwise if kernel.kind == "other" else device.bandwidth_fraction)
    )
    if SUM in kernel.names:
        moving = max(moving, kernel.bytes / device.kernels_of(dtype).sums)
    functions = sum(any(word in name for word in FUNCTIONS) for name in kernel.names)
    match kernel.kind:
        case "matmul":
            computing = kernel.flops / device.matmul_rate(dtype)
        case "attention":
            keys = kernel.flops / max(OPERATIONS * kernel.numbers, 1)
            computing = kernel.flops / device.attention_rate(dtype, keys)
        case _:  # a sum has fewer results than it computes functions
            computing = functions * max(kernel.numbers, kernel.bytes / NUMBER) / device.functions
    together = math.hypot(moving, computing) if kernel.kind == "matmul" else max(moving, computing)
    together += kernel.fresh / device.first_touch
    together += device.kernels_of(dtype).product_start if kernel.kind == "matmul" else 0.0
    return KernelTime(together + device.start(dtype), "compute" if computing > moving else "memory")


@dataclass(frozen=True)
class Timed:
    """The time of kernels together: limited by arithmetic, by memory, by starts, and by the host that calls them."""

    seconds: float
    compute: float
    memory: float
    launches: float
    kernels: int


def total_time(kernels: Iterable[tuple[Kernel, int]], device: DeviceSpec, dtype: str, host: float) -> Timed:
    """The time of kernels, each as often as it is repeated; `host` is the seconds of a call from Python, 0 compiled.

    A device that runs asynchronously waits for the host only where the host takes longer in all; a CPU is its own host.
    """
    found = {"compute": 0.0, "memory": 0.0}
    kernels, count = list(kernels), 0
    for kernel, repeats in kernels:
        time = kernel_time(kernel, device, dtype)
        found[time.limit] += repeats * (time.seconds - device.start(dtype))
        count += repeats
    launches = count * device.start(dtype)
    busy, calling = sum(found.values()) + launches, python_calls(kernels) * host
    seconds = busy + calling if device.kind == "cpu" else max(busy, calling)
    return Timed(seconds, found["compute"], found["memory"], seconds - sum(found.values()), count)


def python_calls(kernels: Iterable[tuple[Kernel, int]]) -> float:
    """As many calls from Python as the host takes for kernels, each as often as it is repeated.

    An equation is one call, and its further kernels take less; the backward pass calls kernels without Python.
    """
    calls: float = 0.0
    before: str | None = None
    for kernel, repeats in kernels:
        more = len(kernel.names) - 1
        if kernel.tag.phase == FORWARD:
            same = kernel.kind == "other" and kernel.tag.equation == before
            calls += repeats * ((FURTHER if same else 1.0) + FURTHER * more)
        else:
            calls += repeats * WITHOUT_PYTHON * (1 + more)
        before = kernel.tag.equation
    return calls
