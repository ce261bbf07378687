"""Where the numbers went bad: replay a step under the tape and name the first equation that broke."""

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.equation import no_checks
from glassformer.layers.model import Model
from glassformer.recording import Tape
from glassformer.steps import Step
from glassformer.training.objective import LossModule, Objective


def first_bad_equation(model: Model, batch: Batch, objective: Objective) -> str | None:
    """One sentence on the first equation whose result is not finite, forward or else backward; None if all are."""
    with torch.no_grad(), Tape() as tape, no_checks():
        loss, _ = LossModule(model, objective)(batch)
    bad_inputs = [f"parameter {name}" for name, p in model.named_parameters() if not p.isfinite().all()]
    for step in tape.steps:
        for output in step.output_tensors:
            if output.is_floating_point() and bool((output.isnan() | (output == torch.inf)).any()):
                return _forward_sentence(step, output, bad_inputs)
    gradients = tape.reverse(of=loss)
    for step in reversed(tape.steps):
        for tensor in step.input_tensors:
            if tensor in gradients and not bool(gradients[tensor].isfinite().all()):
                where = _first(gradients[tensor])
                return f"the gradient first turns bad behind {_place(step)}: {step.equation.name}, element {where}"
    return None


def _forward_sentence(step: Step, output: Tensor, bad_inputs: list[str]) -> str:
    ranges = ", ".join(
        f"{name} {list(value.shape)} within {value.min():.3g} to {value.max():.3g}"
        for name, value in step.inputs.items()
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel()
    )
    cause = f"; {bad_inputs[0]} is itself not finite" if bad_inputs else ""
    what = f"{_place(step)}: {step.equation.name} is the first to go bad, at element {_first(output)}"
    return f"{what}, from {ranges}{cause}"


def _first(tensor: Tensor) -> list[int]:
    """Where the first number stands that is NaN or infinite."""
    return (~tensor.isfinite()).nonzero()[0].tolist()


def _place(step: Step) -> str:
    """Where in the model; the loss module around it goes without saying."""
    return step.path.removeprefix("model.")
