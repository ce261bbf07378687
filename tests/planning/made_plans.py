"""Plans with figures that a test chooses."""

from dataclasses import replace

from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import (
    Generation,
    Limits,
    Memory,
    Operations,
    Parameters,
    Plan,
    StepTime,
    Workload,
)

DEVICE = DeviceSpec(
    name="a device", kind="cuda", memory=8e9, bandwidth=1e12, peaks={"float32": 1e13, "bfloat16": 1e14}, power=500.0,
    price=2.0,
)  # fmt: skip


def made_plan(
    parameters: int = 1000, peak: int = 10_000, kv_cache: int = 64, seconds: float = 0.5, devices: int = 1
) -> Plan:
    """A plan of a step of 4,000 tokens and six operations for each parameter and token."""
    weights, activations = 4 * parameters, peak - 16 * parameters
    memory = Memory(
        weights=weights, gradients=weights, optimizer=2 * weights, activations=activations,
        activations_checkpointed=activations // 4, saved=activations - activations // 4, overhead=0, replicated=peak,
        sharded=peak // 2, saved_sharded=activations // 2,
    )  # fmt: skip
    time = StepTime(
        seconds=seconds, compute=seconds, memory=0.0, launches=0.0, update=0.0, communication=0.0, kernels=1,
        tokens_per_second=4000 / seconds, utilization=0.5,
    )  # fmt: skip
    return Plan(
        name="made", architecture="gpt", device=DEVICE, workload=Workload(batch=4, length=1000, devices=devices),
        parameters=Parameters(total=parameters, by_part={}, without_embeddings=parameters),
        operations=Operations(
            forward=8000 * parameters, backward=16_000 * parameters, matmul_forward=0, matmul_backward=0, tokens=4000,
            by_equation=(),
        ),
        memory=memory,
        time=time, time_checkpointed=replace(time, seconds=1.3 * seconds),
        limits=Limits(batch=8, batch_checkpointed=16, length=2000, length_checkpointed=4000, crossover=384),
        generation=Generation(
            batch=4, length=1000, dtype="bfloat16", weights=2 * parameters, kv_cache=kv_cache, prefill_seconds=0.1,
            seconds_per_step=0.01, tokens_per_second=400.0,
        ),
    )  # fmt: skip
