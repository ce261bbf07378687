"""A few real training steps beside the plan of them: seconds, peak memory, and the seconds of each equation."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from glassformer.data.batches import Batch
from glassformer.equation import no_checks
from glassformer.errors import ConfigError
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.planning.example_batch import example_batch
from glassformer.planning.figures import Plan
from glassformer.planning.kernel_data import BACKWARD
from glassformer.planning.planned_model import PlannedModel
from glassformer.planning.recorded_step import Labels, block_names
from glassformer.torch_private import KernelTimer, MemoryMeter, uncompile
from glassformer.training.device import Device, choose_device
from glassformer.training.objective import LossModule, Objective
from glassformer.training.optimizer import Optimizers
from glassformer.training.recipe import Recipe
from glassformer.training.recomputed import keep_activations, recompute_blocks
from glassformer.training.step import compile_loss_module

WARM_UP, STEPS = 2, 5
LEARNING_RATE = 1e-4


@dataclass(frozen=True, kw_only=True)
class EquationSeconds:
    """The seconds of an equation in one step that is not compiled, forward and backward: predicted and measured."""

    name: str
    predicted: float
    measured: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What real steps took: seconds of one, the most bytes of tensors at once, and the seconds of each equation."""

    seconds: float
    peak: int
    by_equation: tuple[EquationSeconds, ...]


def measure(found: PlannedModel, planned: Plan) -> Measured:
    """Take a few steps of a planned training run on this machine, with random weights on a batch of zeros."""
    workload = planned.workload
    device = choose_device(
        "cuda" if planned.device.kind == "cuda" else "cpu",
        "bfloat16" if workload.dtype == "bfloat16" else "float32",
        "auto",
    )
    device = replace(device, activation_checkpointing=workload.activation_checkpointing)
    if planned.memory.peak > planned.device.memory:
        most = f"the largest batch that fits is {planned.limits.batch}"
        raise ConfigError(f"batch is {workload.batch}, which needs more memory than there is; {most}")
    real = build(found.model.config, device="cpu").to(device.device)
    batch = example_batch(real, found.objective, workload.batch, workload.length)
    batch = {name: value.to(device.device) for name, value in batch.items()}
    optimizer = Optimizers(real, replace(Recipe(steps=1, warmup_steps=0), optimizer=workload.optimizer))
    step = _RealStep(real, found.objective, batch, device, optimizer)
    seconds, peak = _timed(step, device), step.peak()
    uncompile(real)
    keep_activations(real)
    timed = _by_equation(real, found.objective, batch, device)
    rows = [
        EquationSeconds(name=row.name, predicted=row.seconds, measured=timed.get(row.name, 0.0))
        for row in planned.operations.by_equation
    ]
    return Measured(seconds=seconds, peak=peak, by_equation=tuple(rows))


class _RealStep:
    """Training steps of a model on one batch."""

    def __init__(self, model: Model, objective: Objective, batch: Batch, device: Device, optimizer: Optimizers) -> None:
        self.module, self.batch, self.device, self.optimizer = LossModule(model, objective), batch, device, optimizer
        self.module.train()
        if device.activation_checkpointing:
            recompute_blocks(model)
        if device.compile:
            compile_loss_module(self.module)

    def backward(self) -> None:
        """The forward and the backward pass."""
        with no_checks(), self.device.autocast():
            loss, _ = self.module(self.batch)
        loss.backward()

    def __call__(self) -> None:
        self.backward()
        self.optimizer.update(LEARNING_RATE)

    def peak(self) -> int:
        """The most bytes of tensors at once: as a GPU's allocator counts them, or as they are made on a CPU."""
        if self.device.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self()
            return torch.cuda.max_memory_allocated()
        states = [state for each in self.optimizer.optimizers for state in each.state.values()]
        kept = sum(value.nbytes for state in states for value in state.values() if isinstance(value, torch.Tensor))
        with MemoryMeter() as meter:  # it counts weights and inputs too, once something reads them
            self.backward()
        self.optimizer.update(LEARNING_RATE)
        return meter.peak + kept


def _timed(step: Callable[[], None], device: Device) -> float:
    """The median seconds of a step after a warm-up."""
    for _ in range(WARM_UP):
        device.timed(step)
    return statistics.median(device.timed(step) for _ in range(STEPS))


def _by_equation(model: Model, objective: Objective, batch: Batch, device: Device) -> dict[str, float]:
    """Seconds of each equation's kernels in a forward and a backward pass that is not compiled."""
    module, labels = LossModule(model, objective).train(), Labels()

    def tag(metadata: object) -> str:
        return labels.tag(metadata).equation

    wait = torch.cuda.synchronize if device.device.type == "cuda" else _nothing
    for timer in (KernelTimer(tag, wait), KernelTimer(tag, wait)):  # the first one warms up
        labels.phase = "forward"
        with no_checks(), labels.on(model, block_names(model)), timer:
            with device.autocast():
                loss, _ = module(batch)
            labels.phase = BACKWARD
            loss.backward()
        model.zero_grad(set_to_none=True)
        seconds = timer.seconds
    return seconds


def _nothing() -> None:
    """A CPU has computed when a call returns."""
