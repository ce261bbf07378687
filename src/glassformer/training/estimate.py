"""What a run will need before it starts: peak memory and time, from one step in which nothing is computed."""

import os
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from glassformer.data.batches import Batch, Batches
from glassformer.equation import no_checks
from glassformer.errors import ConfigError
from glassformer.layers.model import Model
from glassformer.torch_private import MemoryMeter, pretending
from glassformer.training.device import Device
from glassformer.training.objective import FORWARD_AND_BACKWARD, LossModule, Objective, operations_per_token
from glassformer.training.recipe import Recipe

FRAGMENTATION = {False: 0.2, True: 0.75}  # of the tensors: what an allocator keeps, by whether batches are uneven
LIBRARIES = 70_000_000  # bytes of code and buffers that the first steps load
BATCHES = 50  # of which the largest is taken
CALL = 1e-5  # seconds of a kernel beside its arithmetic
TRIAL = 2**24  # numbers that are added to measure the bandwidth of memory
FLOAT32 = 4  # bytes
BOUND = 16  # more tensors than a layer keeps of each of its outputs
MEGABYTE, GIGABYTE = 1e6, 1e9
CGROUP = Path("/sys/fs/cgroup/memory.max")  # the limit of a container


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Bytes that a run takes at its peak beside its data, and the seconds it lasts.

    `activations` is what the largest batch takes at the peak of its step, logits and their gradient included;
    `overhead` the copy of a checkpoint that is saved, where that is more, and what libraries and the allocator keep.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    overhead: int
    seconds: float

    @property
    def memory(self) -> int:
        """All of it together."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.overhead


@dataclass(frozen=True)
class StepCost:
    """What one step on a batch takes: bytes at its peak, bytes written, kernels, operations."""

    peak: int
    made: int
    calls: int
    operations: float


def estimate(
    model: Model, objective: Objective, batches: Batches, validation: Batches, recipe: Recipe, device: Device
) -> Estimate:
    """The memory and the time of a run; the model may be on the device "meta"."""
    batch = largest_batch(batches, objective)
    cost = step_cost(model, objective, batch, recipe, device)
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    activations = max(cost.peak - weights, 0)
    held = weights * (recipe.copies + 1) + activations
    saving = weights * (2 * recipe.copies + 1) if device.device.type == "cpu" else 0  # the state and a copy of it
    step = step_seconds(cost, device) * recipe.gradient_accumulation
    evaluations = -(-recipe.steps // recipe.evaluate_every) * sum(1 for _ in validation.once())
    return Estimate(
        weights=weights,
        gradients=weights,
        optimizer=weights * (recipe.copies - 1),
        activations=activations,
        overhead=max(saving - held, 0) + int(FRAGMENTATION[objective.uneven] * max(held, saving)) + LIBRARIES,
        seconds=(recipe.steps + evaluations / FORWARD_AND_BACKWARD) * step,
    )


def largest_batch(batches: Batches, objective: Objective) -> Batch:
    """The batch with the most positions among the first ones."""
    return max(islice(batches.once(), BATCHES), key=lambda batch: sum(batch[name].numel() for name in objective.inputs))


def step_cost(model: Model, objective: Objective, batch: Batch, recipe: Recipe, device: Device) -> StepCost:
    """What a forward and a backward pass take, from tensors that have shapes only."""
    operations = operations_per_token(LossModule(model, objective), batch) * objective.tokens(batch)
    with pretending(device.device):
        loss_module = LossModule(type(model)(model.config), objective, recipe.r_drop).train()
        inputs = {name: torch.zeros(value.shape, dtype=value.dtype) for name, value in batch.items()}
        with MemoryMeter() as meter, no_checks():
            with device.autocast():
                loss, _ = loss_module(inputs, recipe.label_smoothing)
            loss.backward()
    return StepCost(meter.peak, meter.made, meter.calls, operations)


def step_seconds(cost: StepCost, device: Device) -> float:
    """Seconds of a step: its arithmetic at the peak of the device, what it writes, and the calls themselves."""
    x = torch.ones(TRIAL, device=device.device)
    began = time.perf_counter()
    float(x.add(1)[-1])
    bandwidth = x.nbytes / (time.perf_counter() - began)
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
    positions = sum(batch[name].numel() for name in objective.inputs)
    length = max(batch[name].shape[-1] for name in objective.inputs)
    widths = sum(max(weight.shape) + BOUND * length for weight in model.parameters())
    weights = sum(weight.numel() for weight in model.parameters()) * (recipe.copies + 1)
    return FLOAT32 * (weights + BOUND * positions * widths) < memory_of(device.device) / 2


def require_memory(found: Estimate, device: torch.device) -> None:
    """Refuse a run that needs more memory than there is, with what to lower."""
    there = memory_of(device)
    if found.memory <= there:
        return
    held = found.weights + found.gradients + found.optimizer
    parts = f"{readable(held)} for weights, gradients and optimizer, {readable(found.activations)} for activations"
    batch = "a smaller batch (data.batch_size or data.tokens_per_batch) or data.max_length"
    lower = "a smaller model (model.dim, model.layers, or --size tiny)" if held > found.activations else batch
    has = f"{'the GPU' if device.type == 'cuda' else 'the machine'} has {readable(there)}"
    raise ConfigError(f"this run needs about {readable(found.memory)} of memory and {has}: {parts}; try {lower}")


def readable(size: float) -> str:
    """Bytes in MB or GB."""
    return f"{size / GIGABYTE:,.1f} GB" if size >= GIGABYTE else f"{size / MEGABYTE:,.0f} MB"


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    for size, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{max(seconds, 1):.0f} seconds"
