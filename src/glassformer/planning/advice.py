"""What would fit in place of a plan of which no batch does: more devices with FSDP, or a shorter length."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from glassformer.planning.figures import Limits, Memory, Plan, Workload
from glassformer.planning.memory import required

MOST_DEVICES = 1024
MemoryOf = Callable[[Workload], Memory]
LimitsOf = Callable[[Workload], Limits]


def advised(found: Plan, least_bytes: int, memory_of: MemoryOf, limits_of: LimitsOf) -> Workload | None:
    """A workload that fits, by its own memory and limits; None if there is none.

    Where the `least_bytes` of weights, gradients and optimizer are too many, it has more devices; else it is shorter.
    """
    shorter = None if least_bytes > found.device.memory else _shorter(found, limits_of)
    return shorter or _over_devices(found, memory_of)


def _over_devices(found: Plan, memory_of: MemoryOf) -> Workload | None:
    """The fewest devices over which FSDP holds the batch, or else one row, or else with activation checkpointing."""
    workload = found.workload
    if found.device.interconnect <= 0:
        return None
    batches = dict.fromkeys((workload.batch, 1))
    for again, batch in product(dict.fromkeys((workload.activation_checkpointing, True)), batches):
        tried = replace(workload, batch=batch, activation_checkpointing=again, strategy="fsdp")
        count = fewest_devices(tried, workload, found.device.memory, memory_of)
        if count is not None:
            return replace(tried, devices=count)
    return None


def fewest_devices(tried: Workload, asked: Workload, room: float, memory_of: MemoryOf) -> int | None:
    """The fewest devices, more than were asked for with FSDP, that hold a workload; None if a thousand do not."""

    def fits(count: int) -> bool:
        shared = replace(tried, devices=count)
        return required(memory_of(shared), shared) <= room

    low, high = (asked.devices if asked.strategy == "fsdp" else 1), MOST_DEVICES
    if low >= high or not fits(high):
        return None
    while high - low > 1:  # more devices never take more on each
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _shorter(found: Plan, limits_of: LimitsOf) -> Workload | None:
    """The longest sequences that fit, of as many as were asked for or of one; None if none does or there are none."""
    asked = found.workload
    for batch in dict.fromkeys((asked.batch, 1)):
        one = replace(asked, batch=batch)
        limits = found.limits if batch == asked.batch else limits_of(one)
        if limits.length:
            return replace(one, length=limits.length)
        if limits.length_checkpointed:
            return replace(one, length=limits.length_checkpointed, activation_checkpointing=True)
    return None
