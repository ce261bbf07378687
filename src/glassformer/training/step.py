"""One training step: forward, loss, backward, clip, update; and the log line it writes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.data.batches import Batch, Batches
from glassformer.data.prefetched import Prefetched
from glassformer.equation import no_checks
from glassformer.equations.gradients import clip_gradient
from glassformer.errors import GlassformerError, TrainingError
from glassformer.layers.basic import LayerNorm, RMSNorm
from glassformer.layers.block import Block
from glassformer.layers.float8 import use_float8
from glassformer.layers.lora import add_lora_like
from glassformer.layers.model import Model
from glassformer.torch_private import compile_for_many_shapes, compiler_options, multiply_all, uncompiled
from glassformer.training.device import Device
from glassformer.training.distributed import ProcessGroup, unsharded
from glassformer.training.graphed_step import GraphedStep, shapes_of
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.kept_memory import keep_memory
from glassformer.training.monitor import Monitor, first_nonfinite
from glassformer.training.objective import FORWARD_AND_BACKWARD, LossModule, operations_per_token
from glassformer.training.optimizer import EMA, Optimizers, trainable
from glassformer.training.recipe import Recipe
from glassformer.training.recomputed import recompute_blocks

WORTH_COMPILING = 4e15  # operations of a run: on a fast GPU a minute without compiling, and half of it with
NO_FLOAT8 = "no linear layer inside a block has multiples of 16 inputs and outputs: float8 computes as bfloat16 does"
WARM_UP = 3  # steps of a shape before it is captured: kernels are compiled, and optimizers make their state


class StepNumbers(NamedTuple):
    """What a step needs beside its batches: numbers, or tensors on the device that hold them."""

    step: float | Tensor
    learning_rate: float | Tensor
    tokens: float | Tensor
    ema_weight: float | Tensor  # of the new weights in their moving average


@dataclass(frozen=True)
class Log:
    """One line of a run's log; fields that depend on the clock are left out of comparisons.

    `speed` is tokens per second since the last line, `peak` the fraction of the device's measured peak speed.
    `sample` is what the model does with one validation example.
    """

    step: int
    loss: float
    learning_rate: float
    grad_norm: float
    tokens: int
    validation: float | None = None
    note: str | None = None
    seconds: float = field(default=0.0, compare=False)
    speed: float = field(default=0.0, compare=False)
    peak: float = field(default=0.0, compare=False)
    sample: str | None = None


class Training:
    """The state of a training run: everything that changes from step to step."""

    def __init__(
        self, loss_module: LossModule, batches: Batches, recipe: Recipe, device: Device, process_group: ProcessGroup
    ) -> None:
        if not device.asynchronous:
            keep_memory()
        self.model, self.objective = loss_module.model, loss_module.objective
        self.batches = Prefetched(batches) if device.asynchronous else batches
        self.recipe, self.device, self.process_group = recipe, device, process_group
        example = next(batches.first(1))
        self.operations = operations_per_token(loss_module, example)
        self.shapes, self.batch_operations = shapes_of([example]), self.operations * self._tokens([example])
        loss_module.to(device.device)
        nowhere = device.float8 and not use_float8(self.model)
        self._unsaid = NO_FLOAT8 if nowhere else None
        if device.activation_checkpointing:
            recompute_blocks(self.model)
        self.compiled = self._worth_compiling(recipe.steps * recipe.gradient_accumulation)
        if self.compiled:
            compile_loss_module(loss_module)
        self.loss_module = process_group.wrap(loss_module, device)
        self.weights = list(self.model.parameters())
        self.optimizers = Optimizers(self.model, recipe)
        self.ema = EMA(self.model, recipe.ema_decay) if recipe.ema_decay else None
        baseline = self.objective.baseline
        self.monitor = Monitor(uniform=None if baseline is None else baseline(self.model))
        self.done = 0
        self.sums = torch.zeros(3, dtype=torch.float64, device=device.device)  # loss, targets, tokens of the step
        self.norm = torch.zeros((), device=device.device)
        self.tokens = torch.zeros((), dtype=torch.int64, device=device.device)
        self.first_bad = torch.zeros((), dtype=torch.int64, device=device.device)  # first non-finite step, or 0
        self.recent: dict[int, list[Batch]] = {}  # batches of the steps that were not yet checked
        graphs = device.graphs and process_group.world_size == 1 and not self.objective.uneven
        graphs = graphs and self.optimizers.capturable
        work = (self._compute_with, device, WARM_UP, len(StepNumbers._fields))
        self.graphed = GraphedStep("steps", *work) if graphs else None
        self.held_out: HeldOutLoss | None = None

    def _worth_compiling(self, batches: float) -> bool:
        """Whether to compile; unless the run says so, when this many batches save more time than the compiler takes."""
        if self.device.compile is not None:
            return self.device.compile
        return self.device.asynchronous and self.batch_operations * batches > WORTH_COMPILING

    def _tokens(self, parts: Sequence[Batch]) -> int:
        return sum(self.objective.tokens(self.model, batch) for batch in parts)

    def train_step(self) -> None:
        """Take one step; on a device that runs asynchronously nothing here waits for it."""
        step, recipe = self.done + 1, self.recipe
        parts = [next(self.batches) for _ in range(recipe.gradient_accumulation)]
        self.recent[step] = parts
        for batch in parts:
            self.objective.check(self.model, batch)
        ema_weight = 0.0 if self.ema is None else self.ema.weight_at(step)
        numbers = (step, recipe.learning_rate_at(step), self._tokens(parts), ema_weight)
        if self.graphed is None:
            self._compute([self.device.move(batch) for batch in parts], StepNumbers(*numbers))
        else:
            self.graphed.run(parts, *numbers)
        self.done = step

    def _compute_with(self, parts: Sequence[Batch], numbers: Tensor) -> None:
        self._compute(parts, StepNumbers(*numbers.unbind()))

    def _compute(self, parts: Sequence[Batch], numbers: StepNumbers) -> None:
        """What a step does on the device; it writes into tensors that stay where they are."""
        self._backward(parts, numbers.tokens)
        self.clip_gradients()
        bad = ~(self.norm.isfinite() & self.sums[0].isfinite()) & (self.first_bad == 0)
        self.first_bad.add_((bad * numbers.step).long())  # it was 0
        if not self.device.asynchronous:
            self.raise_if_nonfinite()
        skip = (self.first_bad > 0).float() if self.device.asynchronous else None
        self.optimizers.update(numbers.learning_rate, skip)
        self.tokens.add_(self.sums[2].long())
        if self.ema is not None:
            self.ema.update(numbers.ema_weight)

    def _backward(self, parts: Sequence[Batch], tokens: float | Tensor) -> None:
        """Gradients of the loss summed over all parts, as of one batch."""
        self.sums.zero_()
        for number, batch in enumerate(parts, start=1):
            last = number == len(parts)
            # Without checks: a non-finite value is named by the replay, with the equation that made it.
            with self.process_group.accumulate(self.loss_module, last), no_checks(), self.device.autocast():
                loss, count = self.loss_module(batch, self.recipe.label_smoothing)
                loss.backward()
            self.sums[:2].add_(torch.stack([loss.detach().double(), count.double()]))
        self.sums[2].add_(tokens)
        self.process_group.sum(self.sums)

    def clip_gradients(self) -> None:
        """Turn sums into means over all targets, and clip the gradients to `max_grad_norm` together."""
        gradients = [p.grad for p in self.weights if p.grad is not None]
        targets = torch.where(self.sums[1] > 0, self.sums[1], 1)  # weights may sum to less than one
        scale = (self.process_group.world_size / targets).to(gradients[0].dtype)  # DDP averages
        with no_checks():
            self.norm.copy_(self.process_group.norm(gradients) * scale)
            factor = clip_gradient(torch.ones_like(self.norm), self.norm, self.recipe.gradient_limit)
        multiply_all(gradients, factor * scale)

    def raise_if_nonfinite(self) -> None:
        """Stop before anything is saved or logged if a value was not finite; nothing was updated since."""
        step = int(self.first_bad)
        if step:
            finite = "each equation is finite when it is replayed, so a sum of gradients overflowed, or the precision "
            finite += f"is too low; try a learning rate below {self.recipe.learning_rate_at(step):.2g}"
            why = self._cause(self.recent[step]) or finite
            raise TrainingError(f"step {step}: the loss or its gradient is not finite, and nothing was updated: {why}")
        self.recent.clear()

    def require_finite(self) -> None:
        """Stop before weights are saved or returned that an update made infinite or NaN."""
        average = {} if self.ema is None else {f"average of {n}": v for n, v in self.ema.weights.items()}
        values = {n: unsharded(v.detach()) for n, v in {**dict(self.model.named_parameters()), **average}.items()}
        if bool(torch.stack([value.isfinite().all() for value in values.values()]).all()):  # waits just once
            return
        for name, value in values.items():
            if not bool(value.isfinite().all()):
                what = f"step {self.done}: the update made {name} infinite or NaN, so nothing is saved"
                raise TrainingError(f"{what}; try a learning rate below {self.recipe.learning_rate_at(self.done):.2g}")

    def _bad_validation(self, loss: float, validation: Batches) -> TrainingError:
        """Why the validation loss is not finite: the weights, or else the first equation that is not."""
        self.require_finite()
        self.model.eval()
        with self._with_ema():
            why = self._cause(validation.once()) or "a replay under the tape is finite"
        return TrainingError(f"step {self.done}: the validation loss is {loss}: {why}")

    def _cause(self, batches: Iterable[Batch]) -> str | None:
        """The first equation that is not finite on these batches, in any process."""
        model, parts = self.model, (self.device.move(batch) for batch in batches)
        if self.process_group.world_size > 1 and self.process_group.strategy == "fsdp":  # the tape needs whole tensors
            model, parts = whole_copy(model), iter(batches)
        with uncompiled():  # compiled code records nothing on a tape
            found = next(filter(None, (first_nonfinite(model, part, self.objective) for part in parts)), "")
        return next(filter(None, self.process_group.gather(found)), None)

    def log(self, validation: Batches | None) -> Log:
        """A log line, with a note if the run diverges or overfits."""
        self.raise_if_nonfinite()
        total, targets, _ = self.sums.tolist()
        loss = total / (targets or 1)
        rate = self.recipe.learning_rate_at(self.done)
        notes = [self.monitor.loss(self.done, loss, rate), self._unsaid]
        self._unsaid = None
        validation_loss = None
        if validation is not None:
            validation_loss = self.evaluate(validation)
            if not math.isfinite(validation_loss):
                raise self._bad_validation(validation_loss, validation)
            notes.append(self.monitor.validation(self.done, validation_loss))
        graphed = (self.graphed, None if self.held_out is None else self.held_out.graphed)
        notes += [each.take_problem() for each in graphed if each is not None]
        note = "; ".join(filter(None, notes)) or None
        sample = None if validation is None else self.sample()
        return Log(self.done, loss, rate, float(self.norm), int(self.tokens), validation_loss, note, sample=sample)

    def sample(self) -> str | None:
        """What the model does with one example, from the first process; one that fails does not end a run."""
        group = self.process_group
        sharded = group.world_size > 1 and group.strategy == "fsdp"
        if self.objective.sample is None or not group.first or sharded:
            return None
        try:
            with self._with_ema(), uncompiled():
                return self.objective.sample(self.model)
        except GlassformerError:
            return None

    def evaluate(self, batches: Batches) -> float:
        """Mean loss over one pass of validation data, with the EMA of the weights where there is one."""
        if self.held_out is None:
            self.held_out = self._held_out_loss(batches)
        with self._with_ema():
            return self.held_out(batches)

    def _held_out_loss(self, batches: Batches) -> HeldOutLoss:
        """The loss of evaluations; compiled where that is worth it, which must not change when a run is resumed."""
        evaluations = self.recipe.steps // self.recipe.evaluate_every
        forward = evaluations * batches.in_one_pass / FORWARD_AND_BACKWARD
        whole = self.compiled and not self.objective.uneven and self.process_group.world_size == 1
        compiled = self.shapes if whole and self._worth_compiling(forward) else None
        return HeldOutLoss(self.loss_module, self.device, self.process_group, compiled, beside=self.graphed)

    def _with_ema(self) -> AbstractContextManager[None]:
        return nullcontext() if self.ema is None else self.ema.swapped_in()

    @torch.no_grad()
    def evaluated_weights(self) -> dict[str, Tensor]:
        """A copy of the weights that evaluation uses: the moving average where there is one."""
        weights = trainable(self.model) if self.ema is None else self.ema.weights
        return {name: value.detach().clone() for name, value in weights.items()}

    @torch.no_grad()
    def load_final_weights(self, best: Mapping[str, Tensor] | None) -> None:
        """Leave the model with the best weights if given, else their EMA if there is one, else the last."""
        parameters, average = dict(self.model.named_parameters()), {} if self.ema is None else self.ema.weights
        for name, value in (average if best is None else best).items():
            parameters[name].copy_(value)


def compile_loss_module(loss_module: LossModule) -> None:
    """Compile a loss module: whole where every batch has the same shape, else block by block with dynamic shapes.

    Equal blocks share compiled code, and code for dynamic shapes takes long to compile. A recurrent model stays as it
    is: its loop over positions would be written out step by step.
    """
    if loss_module.model.loops:
        return
    blocks = [module for module in loss_module.modules() if isinstance(module, Block)]
    if not loss_module.objective.uneven or not blocks:
        norms = [module for module in loss_module.modules() if isinstance(module, LayerNorm | RMSNorm)]
        loss_module.compile(options=compiler_options(max((norm.weight.shape[-1] for norm in norms), default=0)))
        return
    compile_for_many_shapes()
    for block in blocks:
        block.compile(dynamic=True)


def whole_copy(model: Model) -> Model:
    """An unsharded copy of a model on the CPU; every process has to take part."""
    with torch.device("cpu"):
        copy = model.rebuilt().to(next(model.parameters()).dtype)
        add_lora_like(copy, model)
    copy.load_state_dict({name: unsharded(value).cpu() for name, value in model.state_dict().items()})
    return copy.train(model.training)
