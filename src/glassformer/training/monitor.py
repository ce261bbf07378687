"""Detect non-finite values, divergence and overfitting, and describe each in one sentence."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.packed_pairs import unpacked
from glassformer.equation import no_checks
from glassformer.layers.model import Model
from glassformer.recording import Tape
from glassformer.steps import Step
from glassformer.training.objective import LossModule, Objective

SMOOTHING = 0.8  # weight of the past in the smoothed loss
DIVERGING = 1.3  # times the lowest smoothed loss
FAR = 2.0  # times the baseline loss, plus one: no healthy run begins above
OVERFITTING = 2  # evaluations in a row that are worse while the training loss falls
LEAST_RISE = 0.001  # of a validation loss, to be a rise and not rounding


@dataclass
class Monitor:
    """The history of a run that its warnings depend on; each warning is given once, when it becomes true."""

    uniform: float | None = None  # baseline: the loss of a model that has learned nothing
    smooth: float | None = None
    lowest: float | None = None
    lowest_step: int = 0
    diverging: bool = False
    best: float | None = None
    best_step: int = 0
    worse: int = 0
    loss_at_best: float = 0.0
    overfitting: bool = False

    def loss(self, step: int, value: float, rate: float) -> str | None:
        """Add a training loss; a warning where the run begins to diverge."""
        self.smooth = value if self.smooth is None else SMOOTHING * self.smooth + (1 - SMOOTHING) * value
        if self.lowest is None or self.smooth < self.lowest:
            self.lowest, self.lowest_step = self.smooth, step
            self.diverging = self.diverging and self._far_above_baseline
        if self.diverging or not (self._far_above_baseline or self.smooth >= DIVERGING * self.lowest + 0.1):
            return None
        self.diverging = True
        if self._far_above_baseline:
            what = f"it is {self.smooth:.3g}, and a uniform guess would have {self.uniform:.3g}"
        else:
            what = f"it has risen from {self.lowest:.3g} at step {self.lowest_step} to {self.smooth:.3g}"
        advice = f"try a learning rate below {rate:.2g}, a longer warm-up or stronger clipping"
        return f"the loss is diverging: {what}; {advice}"

    @property
    def _far_above_baseline(self) -> bool:
        return self.uniform is not None and self.lowest is not None and self.lowest > FAR * self.uniform + 1

    def validation(self, step: int, value: float) -> str | None:
        """Add a validation loss, after the training loss of the same step; a warning where the model overfits."""
        smooth = 0.0 if self.smooth is None else self.smooth
        if self.best is None or value < self.best:
            self.best, self.best_step, self.worse, self.loss_at_best = value, step, 0, smooth
            self.overfitting = False
            return None
        self.worse += 1
        rises = value > self.best * (1 + LEAST_RISE)
        if self.overfitting or self.worse < OVERFITTING or not rises or smooth >= self.loss_at_best:
            return None
        self.overfitting = True
        return (
            f"the model is overfitting: validation was best at step {self.best_step}, {self.best:.4g}, and is now "
            f"{value:.4g}, although the training loss is lower than it was then; stop there, add dropout, or find "
            "more data"
        )


def first_nonfinite(model: Model, batch: Batch, objective: Objective) -> str | None:
    """One sentence on the first equation whose result or gradient is not finite on a batch; None if all are."""
    with torch.no_grad(), Tape() as tape, no_checks():
        loss, _ = LossModule(model, objective)(unpacked(batch))
    for step in tape.steps:
        for output in step.output_tensors:
            if output.is_floating_point() and bool((output.isnan() | (output == torch.inf)).any()):
                return _describe(step, output, model)
    gradients = tape.reverse(of=loss)
    for step in reversed(tape.steps):
        for tensor in step.input_tensors:
            if tensor in gradients and not bool(gradients[tensor].isfinite().all()):
                where = _first_element(gradients[tensor])
                return f"the gradient is first not finite behind {_path(step)}: {step.equation.name}, element {where}"
    return None


def _describe(step: Step, output: Tensor, model: Model) -> str:
    ranges = ", ".join(
        f"{name} {list(value.shape)} within {value.min():.3g} to {value.max():.3g}"
        for name, value in step.inputs.items()
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel()
    )
    bad = next((name for name, p in model.named_parameters() if not p.isfinite().all()), None)
    what = f"{_path(step)}: {step.equation.name} is the first that is not finite, at element {_first_element(output)}"
    return f"{what}, from {ranges}" + ("" if bad is None else f"; parameter {bad} is itself not finite")


def _first_element(tensor: Tensor) -> list[int]:
    """The index of the first element that is NaN or infinite."""
    return (~tensor.isfinite()).nonzero()[0].tolist()


def _path(step: Step) -> str:
    """The step's module in the model, without the loss module around it."""
    return step.path.removeprefix("model.")
