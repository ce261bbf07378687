"""From one pass to one update: the batches of gradient accumulation, and the moving average of the weights."""

from dataclasses import replace

from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Memory, Operations, StepTime, WeightBytes, Workload
from glassformer.training.estimate import beside_tensors

MOVED = 3  # times that an average moves the bytes of the weights: it reads them and itself, and writes itself


def average_bytes(workload: Workload, weights: WeightBytes) -> int:
    """Bytes of the moving average on each device, 0 without one."""
    if not workload.ema:
        return 0
    return -(-weights.trained // workload.devices) if workload.strategy == "fsdp" else weights.trained


def with_average(memory: Memory, workload: Workload, weights: WeightBytes, device: DeviceSpec, uneven: bool) -> Memory:
    """The memory of a step with the moving average of the weights, if the workload keeps one."""
    if not workload.ema:
        return memory
    whole = weights.trained
    part = -(-whole // workload.devices)
    beside = [beside_tensors(size, uneven) - beside_tensors(0, uneven) for size in (whole, part)]
    more, less = beside if device.kind == "cpu" else (0, 0)
    return replace(
        memory,
        average=whole,
        overhead=memory.overhead + more,
        replicated=memory.replicated + whole + more,
        sharded=memory.sharded + part + less,
    )


def update_time(
    time: StepTime, counted: Operations, workload: Workload, weights: WeightBytes, device: DeviceSpec
) -> StepTime:
    """The time of a whole update, from that of one batch and the operations of all of its batches.

    Gradients are exchanged once; the optimizer and the moving average run once.
    """
    times = workload.gradient_accumulation
    update = time.update + MOVED * average_bytes(workload, weights) / device.copy_rate
    seconds = times * (time.seconds - time.update - time.communication) + update + time.communication
    return replace(
        time,
        seconds=seconds,
        compute=times * time.compute,
        memory=times * time.memory,
        launches=times * time.launches,
        update=update,
        kernels=times * time.kernels,
        tokens_per_second=workload.devices * counted.tokens / seconds,
        utilization=counted.step / seconds / device.peak(workload.dtype),
    )


def update_operations(counted: Operations, times: int) -> Operations:
    """The operations of an update with this many batches, from those of one."""
    rows = [
        replace(
            row,
            calls=times * row.calls,
            forward=times * row.forward,
            backward=times * row.backward,
            seconds=times * row.seconds,
        )
        for row in counted.by_equation
    ]
    return replace(
        counted,
        forward=times * counted.forward,
        backward=times * counted.backward,
        matmul_forward=times * counted.matmul_forward,
        matmul_backward=times * counted.matmul_backward,
        tokens=times * counted.tokens,
        by_equation=tuple(rows),
    )
