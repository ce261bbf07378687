"""What a plan says: parameters, operations, memory, time, generation and limits, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from glassformer.planning.device_spec import DeviceSpec


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What the model is planned for.

    `batch` counts sequences, pictures or rows on each device; `length` is the tokens of each, 0 where it reads none.
    `strategy` is ddp or fsdp, and matters from two devices on. With `activation_checkpointing` each block keeps only
    its input, and computes the rest again in the backward pass. An update has `gradient_accumulation` batches, and with
    `ema` a moving average of the weights is kept beside them.
    """

    batch: int
    length: int
    dtype: str = "float32"
    optimizer: str = "adamw"
    strategy: str = "ddp"
    devices: int = 1
    activation_checkpointing: bool = False
    gradient_accumulation: int = 1
    ema: bool = False

    @property
    def sharded(self) -> bool:
        """Whether each device holds a part of weights, gradients and optimizer states."""
        return self.strategy == "fsdp" and self.devices > 1


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Trainable numbers, shared ones counted once, and how they are spread over the parts of the model."""

    total: int
    by_part: Mapping[str, int]
    without_embeddings: int


@dataclass(frozen=True, kw_only=True)
class EquationCost:
    """One equation of the catalog in one training step: its calls, operations and seconds."""

    name: str
    calls: int
    forward: int
    backward: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Floating-point operations of one training step on one device; a multiply-add is two.

    `matmul_forward` and `matmul_backward` are those of matrix products alone, as `torch.utils.flop_counter` counts.
    """

    forward: int
    backward: int
    matmul_forward: int
    matmul_backward: int
    tokens: int
    by_equation: tuple[EquationCost, ...]

    @property
    def step(self) -> int:
        """Operations of the forward and the backward pass together."""
        return self.forward + self.backward

    @property
    def per_token(self) -> float:
        """Operations per token, forward and backward."""
        return self.step / max(self.tokens, 1)


@dataclass(frozen=True)
class WeightBytes:
    """Bytes of weights: of all, of the trained ones, of the largest block, and of those outside of blocks.

    `orthogonalization` is the operations by which Muon makes the updates of matrices orthogonal, 0 for others.
    """

    whole: int
    trained: int
    block: int
    outside: int
    orthogonalization: int = 0


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on each device while training; those of a KV cache are in `Generation`.

    `peak` is the most that is held at once; `peak_checkpointed` the same with activation checkpointing, whether the
    workload has it or not, which takes `saved` bytes less. `replicated` and `sharded` are the peak with DDP and with
    FSDP over the devices of the workload; with FSDP, activation checkpointing takes `saved_sharded` bytes less.
    `average` is the moving average of the weights, if one is kept.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    activations_checkpointed: int
    saved: int
    overhead: int
    replicated: int
    sharded: int
    saved_sharded: int
    average: int = 0

    @property
    def peak(self) -> int:
        """All of it together, on a single device."""
        held = self.weights + self.gradients + self.optimizer + self.average
        return held + self.activations + self.overhead

    @property
    def peak_checkpointed(self) -> int:
        """The peak with activation checkpointing, on a single device."""
        return self.peak - self.saved


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of one training step on each device, and where they go.

    `compute` and `memory` are the seconds of kernels that arithmetic limits and of those that memory bandwidth limits;
    `launches` those between kernels; `update` those of the optimizer; `communication` those of exchanging gradients.
    """

    seconds: float
    compute: float
    memory: float
    launches: float
    update: float
    communication: float
    kernels: int
    tokens_per_second: float
    utilization: float


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """One training step: its operations, its memory and its time, and the time with activation checkpointing."""

    operations: Operations
    memory: Memory
    time: StepTime
    time_checkpointed: StepTime


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One decoding step for `batch` sequences with `length` tokens in the KV cache, and the prefill before it.

    `fits` says whether weights and cache fit into the memory of the device, `largest_batch` how many sequences do.
    """

    batch: int
    length: int
    dtype: str
    weights: int
    kv_cache: int
    prefill_seconds: float
    seconds_per_step: float
    tokens_per_second: float
    fits: bool = True
    largest_batch: int = 0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest batch at the length of the workload and the longest context at its batch that fit; 0 if none does.

    `batch_checkpointed` and `length_checkpointed` are those with activation checkpointing, None where there is no
    length. `crossover` is the length from which attention takes more operations than the projections and feed-forward
    layers, None where nothing attends.
    """

    batch: int
    batch_checkpointed: int
    length: int | None
    length_checkpointed: int | None
    crossover: int | None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a model takes on a device: `gf.plan` returns it; `time_checkpointed` is with activation checkpointing.

    `notes` say which settings of a file are not part of it.
    """

    name: str
    architecture: str
    device: DeviceSpec
    workload: Workload
    parameters: Parameters
    operations: Operations
    memory: Memory
    time: StepTime
    time_checkpointed: StepTime
    limits: Limits
    generation: Generation | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def fits(self) -> bool:
        """Whether training fits into the memory of the device, sharded where the workload asks for it."""
        used = self.memory.sharded if self.workload.sharded else self.memory.replicated
        return used <= self.device.memory

    def as_data(self) -> dict[str, object]:
        """The plan as plain data, with what follows from its figures: peaks, operations of a step, whether it fits."""
        memory, counted = self.memory, self.operations
        data: dict[str, object] = msgspec.to_builtins(self)
        memory_data = msgspec.to_builtins(memory)
        operations_data = msgspec.to_builtins(counted)
        return data | {
            "memory": memory_data | {"peak": memory.peak, "peak_checkpointed": memory.peak_checkpointed},
            "operations": operations_data | {"step": counted.step, "per_token": counted.per_token},
            "fits": self.fits,
        }
