"""A model while it learns: forward, loss, backward, clip, update, and the line it writes in the log."""

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx.experimental import _config as shapes

from glassformer.data.batches import Batch, Batches
from glassformer.equation import no_checks
from glassformer.equations.gradients import clip_gradient
from glassformer.errors import TrainingError
from glassformer.layers.block import Block
from glassformer.layers.model import Model
from glassformer.models.build import build
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE, ProcessGroup, unsharded
from glassformer.training.ema import EMA
from glassformer.training.flops import operations_per_token
from glassformer.training.monitor import Monitor
from glassformer.training.nonfinite import first_bad_equation
from glassformer.training.objective import LossModule, choices
from glassformer.training.optimizer import Optimizers
from glassformer.training.recipe import Recipe


@dataclass(frozen=True)
class Log:
    """One line of the record of a run; what depends on the clock does not count when two are compared.

    `speed` is tokens a second since the last line, `peak` its share of the fastest the device was seen to go.
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


class Training:
    """A model while it learns: everything that changes from step to step."""

    def __init__(
        self, loss_module: LossModule, batches: Batches, recipe: Recipe, hardware: Device, processes: ProcessGroup
    ) -> None:
        self.model, self.objective, self.batches, self.recipe = (
            loss_module.model,
            loss_module.objective,
            batches,
            recipe,
        )
        self.hardware, self.processes = hardware, processes
        self.operations = operations_per_token(loss_module, next(batches.once()))
        loss_module.to(hardware.device)
        if hardware.compile:
            compile_loss_module(loss_module)
        self.loss_module = processes.wrap(loss_module, hardware)
        self.weights = list(self.model.parameters())
        self.updates = Optimizers(self.model, recipe)
        self.ema = EMA(self.model, recipe.ema_decay) if recipe.ema_decay else None
        self.monitor = Monitor(uniform=math.log(choices(self.model, self.objective)))
        self.done = 0
        self.sums = torch.zeros(3, dtype=torch.float64, device=hardware.device)  # loss, answers, tokens of the step
        self.norm = torch.zeros((), device=hardware.device)
        self.tokens = torch.zeros((), dtype=torch.int64, device=hardware.device)
        self.first_bad = torch.zeros((), dtype=torch.int64, device=hardware.device)  # the step, or 0 while all is well
        self.recent: dict[int, list[Batch]] = {}  # what was learnt from since we last looked at the numbers

    def train_step(self) -> None:
        """Take one step; on a device that computes by itself nothing here waits for it."""
        step = self.done + 1
        parts = [next(self.batches) for _ in range(self.recipe.gradient_accumulation)]
        self.recent[step] = parts
        self._backward(parts)
        self.clip_gradients()
        bad = ~(self.norm.isfinite() & self.sums[0].isfinite()) & (self.first_bad == 0)
        self.first_bad = torch.where(bad, step, self.first_bad)
        if not self.hardware.waits:
            self.raise_if_nonfinite()
        skip = (self.first_bad > 0).float() if self.hardware.waits else None
        self.updates.update(self.recipe.learning_rate_at(step), skip)
        self.tokens = self.tokens + self.sums[2].long()
        if self.ema is not None:
            self.ema.follow(step)
        self.done = step

    def _backward(self, parts: list[Batch]) -> None:
        """Gradients of the loss summed over all parts: however it is cut, the batch is one batch."""
        self.sums = torch.zeros_like(self.sums)
        for number, batch in enumerate(parts, start=1):
            self.objective.check(self.model, batch)
            here = self.hardware.move(batch)
            # A bad number is for the diagnosis, which names the equation that made it.
            with self.processes.part(self.loss_module, number == len(parts)), no_checks(), self.hardware.autocast():
                loss, count = self.loss_module(here, self.recipe.label_smoothing)
                loss.backward()
            tokens = torch.full_like(self.sums[0], self.objective.tokens(batch))
            self.sums += torch.stack([loss.detach().double(), count.double(), tokens])
        self.processes.sum(self.sums)

    def clip_gradients(self) -> None:
        """Turn sums into means over all answers, and shorten the gradients together to the limit."""
        gradients = [p.grad for p in self.weights if p.grad is not None]
        share = (self.processes.world_size / self.sums[1].clamp_min(1)).to(
            gradients[0].dtype
        )  # processes share by means
        with no_checks():
            self.norm = self.processes.norm(gradients) * share
            factor = clip_gradient(torch.ones_like(self.norm), self.norm, self.recipe.max_grad_norm)
        torch._foreach_mul_(gradients, factor * share)  # pyright: ignore[reportPrivateImportUsage] - all in one pass

    def raise_if_nonfinite(self) -> None:
        """Stop before anything is saved or shown if a number went bad; then nothing was updated since."""
        step = int(self.first_bad)
        if step:
            finite = "each equation is finite when it is replayed, so a sum of gradients overflowed, or the precision "
            finite += f"is too low; try a learning rate below {self.recipe.learning_rate_at(step):.2g}"
            why = self._cause(self.recent[step]) or finite
            raise TrainingError(f"step {step}: the loss or its gradient is not finite, and nothing was updated: {why}")
        self.recent.clear()

    def require_finite(self) -> None:
        """Stop before weights are saved or handed back that an update made infinite or NaN."""
        average = {} if self.ema is None else {f"average of {n}": v for n, v in self.ema.weights.items()}
        for name, value in {**dict(self.model.named_parameters()), **average}.items():
            if not bool(unsharded(value.detach()).isfinite().all()):
                what = f"step {self.done}: the update made {name} infinite or NaN, so nothing is saved"
                raise TrainingError(f"{what}; try a learning rate below {self.recipe.learning_rate_at(self.done):.2g}")

    def _bad_validation(self, loss: float, validation: Batches) -> TrainingError:
        """Why the validation loss is not finite: the weights, or else the first equation that went bad."""
        self.require_finite()
        self.model.eval()
        with self._with_ema():
            why = self._cause(validation.once()) or "a replay under the tape is finite"
        return TrainingError(f"step {self.done}: the validation loss is {loss}: {why}")

    def _cause(self, batches: Iterable[Batch]) -> str | None:
        """The first equation that went bad in these batches, in whichever process."""
        model, parts = self.model, (self.hardware.move(batch) for batch in batches)
        if self.processes.world_size > 1 and self.processes.strategy == "fsdp":  # the tape needs whole tensors
            model, parts = whole_copy(model), iter(batches)
        with torch.compiler.set_stance("force_eager"):  # a tape sees nothing of a compiled block
            found = next(filter(None, (first_bad_equation(model, part, self.objective) for part in parts)), "")
        everywhere = self.processes.gather(found)
        return next(filter(None, everywhere), None)

    def log(self, validation: Batches | None) -> Log:
        """Where the run stands, with a sentence if it goes wrong slowly."""
        self.raise_if_nonfinite()
        loss = float(self.sums[0] / self.sums[1].clamp_min(1))
        rate = self.recipe.learning_rate_at(self.done)
        notes = [self.monitor.loss(self.done, loss, rate)]
        held_out = None
        if validation is not None:
            held_out = self.evaluate(validation)
            if not math.isfinite(held_out):
                raise self._bad_validation(held_out, validation)
            notes.append(self.monitor.validation(self.done, held_out))
        note = "; ".join(filter(None, notes)) or None
        return Log(self.done, loss, rate, float(self.norm), int(self.tokens), held_out, note)

    def evaluate(self, batches: Batches) -> float:
        """Mean loss over one pass of held-out data, by the moving average of the weights where there is one."""
        with self._with_ema():
            return evaluate_loss(self.loss_module, batches, self.hardware, self.processes)

    def _with_ema(self) -> AbstractContextManager[None]:
        return nullcontext() if self.ema is None else self.ema.in_place()

    @torch.no_grad()
    def evaluated_weights(self) -> dict[str, Tensor]:
        """A copy of the weights that evaluation uses: the moving average where there is one."""
        weights = dict(self.model.named_parameters()) if self.ema is None else self.ema.weights
        return {name: value.detach().clone() for name, value in weights.items()}

    @torch.no_grad()
    def load_final_weights(self, best: Mapping[str, Tensor] | None) -> None:
        """End with the best weights, with the moving average, or with the last weights, whichever there is first."""
        if best is not None:
            for name, parameter in self.model.named_parameters():
                parameter.copy_(best[name])
        elif self.ema is not None:
            self.ema.settle()


def compile_loss_module(loss_module: LossModule) -> None:
    """Compile a loss module: whole where every batch has the same shape, else block by block, for any shape.

    Blocks alike share a program, and one for any shape takes long to make.
    """
    blocks = [module for module in loss_module.modules() if isinstance(module, Block)]
    if not loss_module.objective.uneven or not blocks:
        loss_module.compile()
        return
    shapes.use_duck_shape = False  # two lengths that happen to be equal in a batch are not in the next
    for block in blocks:
        block.compile(dynamic=True)


def uncompile(model: Model) -> None:
    """Blocks as they were written: what comes after training has shapes of its own."""
    for module in model.modules():
        module._compiled_call_impl = None  # torch has no other way back


def whole_copy(model: Model) -> Model:
    """A copy, in the computer's own memory, of a model that processes keep in shards; each of them has to ask."""
    copy = build(model.config, device="cpu").to(next(model.parameters()).dtype)
    copy.load_state_dict({name: unsharded(value).cpu() for name, value in model.state_dict().items()})
    return copy.train(model.training)


@torch.no_grad()
def evaluate_loss(
    loss_module: torch.nn.Module, batches: Batches, hardware: Device, processes: ProcessGroup = ALONE
) -> float:
    """Mean loss over every answer of one pass, without smoothing and without dropout."""
    before = loss_module.training
    loss_module.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=hardware.device)
    for batch in batches.once():
        # One pass is not worth the time of compiling the model once more.
        with no_checks(), hardware.autocast(), torch.compiler.set_stance("force_eager"):
            loss, count = loss_module(hardware.move(batch), 0.0)
        sums += torch.stack([loss.double(), count.double()])
    loss_module.train(before)
    total, answers = processes.sum(sums).tolist()
    return total / max(answers, 1)
