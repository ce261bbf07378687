"""A few real training steps beside the plan of them: seconds, peak memory, and the seconds of each equation."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import torch

from glassformer.data.batches import Batch, Batches, Rows
from glassformer.data.batches import Plan as BatchPlan
from glassformer.data.packed_pairs import BOUNDS
from glassformer.equation import no_checks
from glassformer.errors import ConfigError
from glassformer.kernel_calls import KernelTimer, MemoryMeter
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.planning.devices import require_here
from glassformer.planning.example_batch import as_trained, example_batch
from glassformer.planning.figures import Plan
from glassformer.planning.kernel_data import BACKWARD
from glassformer.planning.kernels import eager
from glassformer.planning.memory import required
from glassformer.planning.planned_model import PlannedModel
from glassformer.planning.recorded_step import Labels, block_names, record_step
from glassformer.planning.roofline import total_time
from glassformer.torch_private import uncompile
from glassformer.training.device import Device, choose_device
from glassformer.training.distributed import ALONE
from glassformer.training.objective import LossModule, Objective
from glassformer.training.recipe import Recipe
from glassformer.training.recomputed import keep_activations
from glassformer.training.step import Training

WARM_UP, STEPS = 5, 7  # a graph is captured in the fourth step
LEARNING_RATE, EMA_DECAY = 1e-4, 0.999


@dataclass(frozen=True, kw_only=True)
class EquationSeconds:
    """The seconds of an equation's kernels in one update without compiling, forward and backward.

    Both are of each call as its own kernel, waited for: predicted is its time by roofline and that of calling it.
    """

    name: str
    predicted: float
    measured: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What real updates took: seconds of one and the most bytes of tensors at once, as training runs it.

    `by_equation` is of another run, which is never compiled.
    """

    seconds: float
    peak: int
    by_equation: tuple[EquationSeconds, ...]


def measure(found: PlannedModel, planned: Plan, equations: bool = True) -> Measured:
    """Take a few steps of a planned training run on this machine, with random weights on random tokens."""
    workload = planned.workload
    require_here(planned.device)
    if workload.devices > 1:
        raise ConfigError(f"devices is {workload.devices}, and steps are measured on one; leave it out")
    device = choose_device(
        "cuda" if planned.device.kind == "cuda" else "cpu",
        "bfloat16" if workload.dtype == "bfloat16" else "float32",
        "yes" if planned.device.kind == "cuda" else "no",
    )
    device = replace(device, activation_checkpointing=workload.activation_checkpointing)
    if required(planned.memory, replace(workload, devices=1)) > planned.device.memory:
        most = f"the largest batch that fits is {planned.limits.batch}"
        raise ConfigError(f"batch is {workload.batch}, which needs more memory than there is; {most}")
    real = build(found.model.config, device="cpu").to(device.device)
    compiles = planned.device.compiles
    objective = as_trained(found.objective, real, workload.dtype, workload.length, compiles)
    batch = _with_random_tokens(example_batch(real, objective, workload.batch, workload.length), real, workload.length)
    recipe = replace(
        Recipe(steps=1, warmup_steps=0, learning_rate=LEARNING_RATE),
        optimizer=workload.optimizer,
        gradient_accumulation=workload.gradient_accumulation,
        ema_decay=EMA_DECAY if workload.ema else 0.0,
    )
    training = Training(LossModule(real, objective), _OneBatch(batch), recipe, device, ALONE)
    training.model.train()
    seconds, peak = _timed(training, device), _peak(training, device)
    uncompile(training.loss_module)
    keep_activations(real)
    there = {name: value.to(device.device) for name, value in batch.items()}
    rows = _equations(found, planned, _by_equation(real, objective, there, device)) if equations else ()
    return Measured(seconds=seconds, peak=peak, by_equation=rows)


def _equations(found: PlannedModel, planned: Plan, measured: Mapping[str, float]) -> tuple[EquationSeconds, ...]:
    """Predicted beside measured, the equation that is predicted to take longest first."""
    predicted, times = eager_seconds(found, planned), planned.workload.gradient_accumulation
    names = sorted(filter(None, {*predicted, *measured}), key=lambda name: -predicted.get(name, 0.0))
    return tuple(
        EquationSeconds(name=name, predicted=times * predicted.get(name, 0.0), measured=times * measured.get(name, 0.0))
        for name in names
    )


def eager_seconds(found: PlannedModel, planned: Plan) -> dict[str, float]:
    """Predicted seconds of each equation in one step that is not compiled: its kernels, and the calls from the host."""
    workload, device, model = planned.workload, planned.device, found.model
    objective = as_trained(found.objective, model, workload.dtype, workload.length, device.compiles)
    kind = "cuda" if device.compiles else "cpu"
    step = record_step(model, objective, workload.batch, workload.length, workload.dtype, kind)
    seconds: dict[str, float] = {}
    waiting, repeats = replace(device, kind="cpu"), step.repeats  # each call is waited for, as on a CPU
    for equation, kernels in groupby(eager(step)[0], lambda kernel: kernel.tag.equation):
        calls = [(kernel, repeats[kernel.at]) for kernel in kernels]
        took = total_time(calls, waiting, workload.dtype, device.dispatch).seconds
        seconds[equation] = seconds.get(equation, 0.0) + took
    return seconds


class _OneBatch(Batches):
    """The same batch again and again."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(0, 0, 1)
        self.batch = batch

    def settings(self) -> dict[str, int]:
        """No sizes."""
        return {}

    def _sample(self) -> Iterator[Sequence[int]]:
        return iter(())

    def _shuffled(self, random: np.random.Generator) -> BatchPlan:
        del random
        return self._in_order()

    def _in_order(self) -> BatchPlan:
        return [np.zeros(1, dtype=np.int64)]

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        del rows, epoch, index
        return dict(self.batch)


def _with_random_tokens(batch: Batch, model: Model, length: int) -> Batch:
    """A batch with random tokens and pixels: equal ones take another time, above all in an embedding's gradient."""
    generator, vocab = torch.Generator().manual_seed(0), vars(model.config).get("vocab")
    found = dict(batch)
    for name, value in batch.items():
        if value.is_floating_point():
            found[name] = torch.randn(value.shape, generator=generator)
        elif vocab and name not in BOUNDS and value.dtype == torch.long and value.shape[1:] >= (length,):
            found[name] = torch.randint(vocab, value.shape, generator=generator)
    return found


def _timed(training: Training, device: Device) -> float:
    """The median seconds of a step, after those in which kernels are compiled and a graph is captured.

    On a CPU the least, as its peaks are measured too: what else runs there only adds to it.
    """
    if device.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(WARM_UP):
        device.timed(training.train_step)
    found = [device.timed(training.train_step) for _ in range(STEPS)]
    return statistics.median(found) if device.device.type == "cuda" else min(found)


def _peak(training: Training, device: Device) -> int:
    """The most bytes of tensors at once: as a GPU's allocator counted them, or as they are made on a CPU."""
    if device.device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    states = [state for each in training.optimizers.optimizers for state in each.state.values()]
    kept = sum(value.nbytes for state in states for value in state.values() if isinstance(value, torch.Tensor))
    kept += 0 if training.ema is None else sum(value.nbytes for value in training.ema.weights.values())
    with MemoryMeter() as meter:  # it counts weights and inputs too, once something reads them
        training.train_step()
    return meter.peak + kept


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
