"""One training step as a chain of stages for one weight: loss, gradient, clipping, moments, the new weight."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.arithmetic import number, times, total
from glassformer.equation import AnyEquation
from glassformer.equations.algebra import linear
from glassformer.equations.embedding import embed
from glassformer.equations.gradients import global_norm
from glassformer.errors import TapeError
from glassformer.probes.trace import TraceStep
from glassformer.probes.training_step import TrainingStep

TITLES = {
    "global_norm": "Norm of all gradients",
    "clip_gradient": "Clipped gradient",
    "weight_decay": "Weight decay",
    "exponential_moving_average": "First moment",
    "moving_mean_square": "Second moment",
    "frobenius_normalize": "Scaled to norm one",
    "newton_schulz": "Orthogonalized, round 1",
    **{f"newton_schulz.{n}": f"Orthogonalized, round {n}" for n in range(2, 11)},
    "bias_correction": "Corrected first moment",
    "bias_correction.2": "Corrected second moment",
}
LAST = "New weight"
SUM_NOISE = 1e-4  # of a sum in float32


@dataclass(frozen=True)
class Stage:
    """One stage of a training step: its equation, the whole tensor it gives, and the step of the trace it is.

    The gradient is given by the rule of the equation that reads the weight, not by a step; then `rule` is true.
    """

    name: str
    title: str
    step: TraceStep
    value: Tensor
    rule: bool = False

    @property
    def equation(self) -> AnyEquation:
        """The equation of the stage; of the gradient, the one whose rule gives it."""
        return self.step.equation

    def at(self, index: tuple[int, ...]) -> float:
        """Its number at an entry of the weight; a stage that gives one number for all entries gives that."""
        return float(self.value[index] if self.value.dim() else self.value)

    def operands(self, index: tuple[int, ...]) -> dict[str, float]:
        """The numbers behind the letters of the equation for that entry, where a letter has one number for it."""
        found: dict[str, float] = {}
        for name, value in ({} if self.rule else self.step.step.inputs).items():
            if isinstance(value, Tensor) and value.shape in (self.value.shape, ()):
                found[name] = float(value[index] if value.dim() else value)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = float(value)
        return found

    def arithmetic(self, index: tuple[int, ...]) -> str:
        """How that number was made, written out."""
        if self.rule:
            return _gradient_sum(self.step, self.value, index)
        if not self.equation.has_cell:
            return ""
        if self.equation is global_norm:  # of every gradient of the model: too many to write out
            count = sum(g.numel() for g in self.step.step.inputs["gradients"])  # pyright: ignore
            return f"√(the sum of the squares of {count:,} gradients) = {number(self.value)}"
        return self.step.trace.cell(self.step.name, *(index if self.value.dim() else ()))


def stages(step: TrainingStep) -> list[Stage]:
    """The stages of a training step in their order, from the loss to the new weight."""
    found = list(_stages(step))
    found[-1] = Stage(found[-1].name, LAST, found[-1].step, step.shown)
    return found


def require_entry(step: TrainingStep, index: tuple[int, ...]) -> tuple[int, ...]:
    """An index of one entry of the weight, or an error."""
    shape = tuple(step.before.shape)
    if len(index) != len(shape) or any(not 0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise TapeError(f"{step.weight} has shape {list(shape)}: there is no entry {list(index)}")
    return index


def _stages(step: TrainingStep) -> Iterator[Stage]:
    trace = step.trace
    loss = next(each for each in trace.steps if each.output is trace.loss)
    reader = next(each for each in trace.steps if any(t is step.before for t in each.step.input_tensors))
    yield Stage("loss", "Loss", loss, torch.as_tensor(loss.output).detach())
    yield Stage("gradient", "Gradient", reader, step.gradient, rule=True)
    update = trace.steps[trace.steps.index(loss) + 1 :]
    for each in update:
        parts = [other for other in update if other.step in each.step.children]
        if parts or each.name == "loss" or not isinstance(each.output, Tensor):
            continue  # a whole is shown by its parts
        yield Stage(each.name, TITLES.get(each.name, each.equation.name), each, each.output.detach())


def _gradient_sum(reader: TraceStep, gradient: Tensor, index: tuple[int, ...]) -> str:
    """The gradient of an entry as a sum over positions, where a linear map or an embedding reads the weight."""
    output = reader.trace.gradient_of(reader.output)
    if output is None or len(index) != gradient.dim():
        return ""
    y_bar, inputs = output.flatten(0, -2)[:, index[-1]], reader.step.inputs
    match reader.equation:
        case equation if equation is linear and gradient.dim() == 2:  # the input times the gradient of the output
            x = torch.as_tensor(inputs["x"]).flatten(0, -2)[:, index[0]].tolist()
            terms = [(times(a, b), a * b) for a, b in zip(x, y_bar.tolist(), strict=True)]
        case equation if equation is linear and gradient.dim() == 1:  # a bias is added at every position
            terms = [(number(b), b) for b in y_bar.tolist()]
        case equation if equation is embed:  # the row of a token is read wherever the token stands
            read = torch.as_tensor(inputs["ids"]).flatten() == index[0]
            terms = [(number(b), b) for b in y_bar[read].tolist()]
        case _:
            return ""
    products = [product for _, product in terms]
    if abs(sum(products) - float(gradient[index])) > SUM_NOISE * sum(map(abs, products)):
        return ""  # the weight is read more than once, as a tied embedding is: this is only one part
    if not terms:
        return "0: the text does not have this token"
    return f"{total([text for text, _ in terms], products)} = {number(gradient[index])}"
