"""What a run will need before it starts: peak memory and time, from one step in which nothing is computed."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from glassformer.data.batches import Batch, Batches
from glassformer.equation import no_checks
from glassformer.kernel_calls import MemoryMeter, pretending
from glassformer.layers.block import Block
from glassformer.layers.lora import add_lora_like
from glassformer.layers.model import Model
from glassformer.training.device import Device
from glassformer.training.objective import FORWARD_AND_BACKWARD, LossModule, Objective, forward_operations
from glassformer.training.optimizer import trainable
from glassformer.training.recipe import Recipe
from glassformer.training.recomputed import recompute_blocks

FRAGMENTATION = {False: 0.25, True: 0.7}  # of the tensors: what an allocator keeps, by whether batches are uneven
LIBRARIES = 40_000_000  # bytes of code and buffers that the first steps load
KERNELS = 11_000_000  # bytes of the matrix products that oneDNN compiles on a CPU for each shape of a batch, and keeps
MOST_KERNELS = 800_000_000  # bytes of the 1,024 kernels that it keeps at most
BATCHES = 50  # of which the largest is taken
UNEVEN_BATCHES = 400  # whose shapes are counted
CALL = 1e-5  # seconds of a kernel beside its arithmetic
TRIAL, TRIES = 2**24, 5  # numbers that are added to measure the bandwidth of memory, and how often
FLOAT32 = 4  # bytes
BOUND = 16  # more tensors than a layer keeps of each of its outputs
MEGABYTE, GIGABYTE = 1e6, 1e9
Shape = tuple[torch.Size, ...]
CGROUP = Path("/sys/fs/cgroup/memory.max")  # the limit of a container


@dataclass(frozen=True, kw_only=True)
class Need:
    """Bytes that a run takes at its peak beside its data.

    `activations` is what the largest batch takes at the peak of its step, logits and their gradient included, or what
    the update takes beside the gradients; `overhead` what libraries and the allocator keep, or the copies of a
    checkpoint's file while it is written, where that is more. On a CPU it has also the kernels compiled for each shape
    of a batch, and the model to start from, whose memory is not used again.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    overhead: int

    @property
    def memory(self) -> int:
        """All of it together."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.overhead


@dataclass(frozen=True, kw_only=True)
class Estimate(Need):
    """Bytes that a run takes at its peak, and the seconds it lasts."""

    seconds: float


@dataclass(frozen=True)
class StepCost:
    """What one step on a batch takes: bytes at its peak, bytes written, kernels, operations."""

    peak: int
    made: int
    calls: int
    operations: float


def estimate(
    model: Model,
    objective: Objective,
    batches: Batches,
    validation: Batches,
    recipe: Recipe,
    device: Device,
    fine_tuned: bool = False,
) -> Estimate:
    """The memory and the time of a run, `fine_tuned` from another model; the model may be on the device "meta"."""
    cost = step_cost(model, objective, largest_batch(batches, objective), recipe, device)
    found = need(model, objective, batches, shapes_in_one_pass(validation, device), recipe, device, fine_tuned, cost)
    step = step_seconds(cost, device) * recipe.gradient_accumulation
    evaluations = -(-recipe.steps // recipe.evaluate_every) * validation.in_one_pass
    return Estimate(**vars(found), seconds=(recipe.steps + evaluations / FORWARD_AND_BACKWARD) * step)


def need(
    model: Model,
    objective: Objective,
    batches: Batches,
    evaluated: set[Shape],
    recipe: Recipe,
    device: Device,
    fine_tuned: bool,
    cost: StepCost,
) -> Need:
    """The memory of a run with steps of this cost, and with validation batches of these shapes."""
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    trained = sum(weight.numel() * weight.element_size() for weight in trainable(model).values())
    optimizer = trained * (recipe.copies - 1)
    activations = max(cost.peak - weights - trained, trained)
    held = weights + trained + optimizer + activations
    overhead = beside_tensors(held, objective.uneven)
    if device.device.type == "cpu":
        overhead = max(overhead, saving_bytes(weights, optimizer, activations) + LIBRARIES)
        overhead += kernel_bytes(batches, evaluated, objective, recipe) + (weights if fine_tuned else 0)
    return Need(weights=weights, gradients=trained, optimizer=optimizer, activations=activations, overhead=overhead)


def shapes_in_one_pass(validation: Batches, device: Device) -> set[Shape]:
    """The shapes of validation batches: on a CPU, whose kernels keep room for each of them."""
    return {batch_shape(each) for each in validation.once()} if device.device.type == "cpu" else set()


def beside_tensors(size: int, uneven: bool) -> int:
    """What the allocator keeps beside tensors of this size in all, and what libraries take."""
    return int(FRAGMENTATION[uneven] * size) + LIBRARIES


def largest_batch(batches: Batches, objective: Objective) -> Batch:
    """The batch with the most positions among the first ones."""
    return max(batches.first(BATCHES), key=lambda batch: sum(part.numel() for part in read_parts(batch, objective)))


def read_parts(batch: Batch, objective: Objective) -> list[torch.Tensor]:
    """The tensors of a batch that a model reads; a packed one has no mask."""
    return [batch[name] for name in objective.inputs if name in batch]


def saving_bytes(weights: int, optimizer: int, free: int) -> int:
    """What writing a checkpoint takes beside memory that is free between steps.

    The bytes of each tensor of a file are copied, which fit into free memory, and then the file as a whole.
    """
    largest = max(weights, optimizer)
    return max(largest - free, 0) + largest


def batch_shape(batch: Batch) -> Shape:
    """The shapes of a batch's tensors, for which kernels are compiled."""
    return tuple(value.shape for value in batch.values())


def kernel_bytes(batches: Batches, evaluated: set[Shape], objective: Objective, recipe: Recipe) -> int:
    """What the kernels take that are compiled for each shape; those of an evaluation are of the forward pass only."""
    count = min(recipe.steps * recipe.gradient_accumulation, UNEVEN_BATCHES) if objective.uneven else 1
    trained = {batch_shape(batch) for batch in batches.first(count)}
    shapes = len(trained) + len(evaluated - trained) / FORWARD_AND_BACKWARD
    return min(int(shapes * KERNELS), MOST_KERNELS)


def step_cost(model: Model, objective: Objective, batch: Batch, recipe: Recipe, device: Device) -> StepCost:
    """What a forward and a backward pass take, from tensors that have shapes only."""
    operations = step_operations(LossModule(model, objective), batch, device.activation_checkpointing)
    with pretending(device.device):
        same = model.rebuilt()
        add_lora_like(same, model)
        for weight, real in zip(same.parameters(), model.parameters(), strict=True):
            weight.requires_grad_(real.requires_grad)
        if device.activation_checkpointing:
            recompute_blocks(same)
        loss_module = LossModule(same, objective, recipe.r_drop).train()
        inputs = {name: torch.zeros(value.shape, dtype=value.dtype) for name, value in batch.items()}
        with MemoryMeter() as meter, no_checks():
            with device.autocast():
                loss, _ = loss_module(inputs, recipe.label_smoothing)
            loss.backward()
    return StepCost(meter.peak, meter.made, meter.calls, operations)


def step_operations(loss_module: LossModule, batch: Batch, again: bool) -> float:
    """Operations of a step, with those of blocks that are computed `again` in the backward pass."""
    forward = forward_operations(loss_module, batch)
    parts = loss_module.named_modules(remove_duplicate=False)
    blocks = tuple(f"{name}." for name, part in parts if isinstance(part, Block))
    second = sum(flops for name, flops in forward.items() if f"{name}.".startswith(blocks)) if again else 0
    return FORWARD_AND_BACKWARD * forward.total() + second


def step_seconds(cost: StepCost, device: Device) -> float:
    """Seconds of a step: its arithmetic at the peak of the device, what it writes, and the calls themselves."""
    x = torch.ones(TRIAL, device=device.device)
    y = torch.zeros_like(x)  # written already: the first touch of memory takes much longer than the next
    bandwidth = x.nbytes / min(device.timed(lambda: torch.add(x, 1, out=y)) for _ in range(TRIES))
    return cost.operations / device.peak() + cost.made / bandwidth + cost.calls * CALL


def memory_of(device: torch.device) -> int:
    """Bytes of memory that the device has, or that the container leaves to the machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = CGROUP.read_text().strip() if CGROUP.is_file() else ""
    return min(whole, int(limit)) if limit.isdigit() else whole


def certainly_fits(model: Model, objective: Objective, batch: Batch, recipe: Recipe, device: Device) -> bool:
    """Whether a bound that is easily computed is far below the memory there is."""
    positions = sum(part.numel() for part in read_parts(batch, objective))
    length = max(part.shape[-1] for part in read_parts(batch, objective))
    widths = sum(max(weight.shape, default=1) + BOUND * length for weight in model.parameters())
    weights = sum(weight.numel() for weight in model.parameters()) * (recipe.copies + 1)
    return FLOAT32 * (weights + BOUND * positions * widths) < memory_of(device.device) / 2


def readable(size: float) -> str:
    """Bytes in MB or GB."""
    return f"{size / GIGABYTE:,.1f} GB" if size >= GIGABYTE else f"{size / MEGABYTE:,.0f} MB"


def rough_duration(seconds: float) -> str:
    """A time to the second, minute, hour or day."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{max(seconds, 1):.0f} seconds"
