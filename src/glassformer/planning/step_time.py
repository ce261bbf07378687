"""Seconds of a training step: its kernels by roofline, the update, and the exchange between devices."""

from collections.abc import Sequence

from glassformer.errors import ConfigError
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Operations, StepTime, WeightBytes, Workload
from glassformer.planning.kernel_data import BACKWARD, Kernel
from glassformer.planning.roofline import total_time
from glassformer.training.recipe import MOMENTS

NORM, CLIP = 1, 2  # times that every gradient is read and written to clip all of them together
ORTHOGONALIZED = "bfloat16"  # the dtype in which Muon orthogonalizes
DIRECTIONS = 2  # an interconnect's bandwidth counts both


def step_time(
    kernels: Sequence[tuple[Kernel, int]],
    counted: Operations,
    weights: WeightBytes,
    workload: Workload,
    device: DeviceSpec,
) -> StepTime:
    """The time of one step, and how much of the device's peak it uses."""
    host = 0.0 if device.compiles else device.dispatch
    run = total_time(kernels, device, workload.dtype, host)
    back = [each for each in kernels if each[0].tag.phase == BACKWARD]
    backward = total_time(back, device, workload.dtype, host).seconds
    update = update_bytes(weights.trained, workload) / device.copy_rate
    update += weights.orthogonalization / device.matmul_rate(ORTHOGONALIZED)
    waiting = exchange_seconds(weights, workload, device)
    hidden = run.seconds if workload.strategy == "fsdp" else backward
    communication = max(waiting - hidden, 0.0)
    seconds = run.seconds + update + communication
    return StepTime(
        seconds=seconds,
        compute=run.compute,
        memory=run.memory,
        launches=run.launches,
        update=update,
        communication=communication,
        kernels=run.kernels,
        tokens_per_second=workload.devices * counted.tokens / seconds,
        utilization=counted.step / seconds / device.peak(workload.dtype),
    )


def update_bytes(trained: int, workload: Workload) -> int:
    """Bytes that clipping and the optimizer move: gradients, and each weight and moment read and written."""
    each = trained // workload.devices if workload.strategy == "fsdp" else trained
    moments = MOMENTS[workload.optimizer]
    return each * (NORM + CLIP + 1 + 2 * (1 + moments))


def exchange_seconds(weights: WeightBytes, workload: Workload, device: DeviceSpec) -> float:
    """Seconds that gradients, and with FSDP weights too, take between devices, while the step goes on.

    A ring sends each byte of an all-reduce twice; FSDP gathers the weights twice and scatters the gradients once.
    """
    count = workload.devices
    if count == 1:
        return 0.0
    if device.interconnect <= 0:
        wanted = "set `interconnect` in a file of devices of your own, or plan for one device"
        raise ConfigError(f"devices is {count}, and {device.name} has no interconnect to exchange gradients; {wanted}")
    part = (count - 1) / count
    moved = part * (2 * weights.whole + weights.trained if workload.strategy == "fsdp" else 2 * weights.trained)
    return moved / (device.interconnect / DIRECTIONS)
