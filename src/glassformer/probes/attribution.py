"""Who mattered: how much the loss would rise without a head or a layer, to first order."""

from torch import Tensor

from glassformer.errors import TapeError
from glassformer.probes.trace import Trace
from glassformer.steps import Step


def head_attribution(trace: Trace) -> dict[str, Tensor]:
    """For every attention the rise of the loss [heads] if a head's output were zero: −⟨gradient, value⟩."""
    steps = _steps_of(trace, "attention", "weighted_sum")  # while training with dropout attention runs in parts
    found = {step: _rise(trace, step.output) for step in steps}
    return {trace.names[step.path]: rise.sum((0, 2, 3)) for step, rise in found.items() if rise.dim() == 4}


def layer_attribution(trace: Trace) -> dict[str, Tensor]:
    """For every sublayer the rise of the loss if it added nothing to its input, by its slope."""
    added = {step: step.inputs["f"] for step in _steps_of(trace, "residual")}
    return {trace.source_of(f): _rise(trace, f).sum() for f in added.values() if isinstance(f, Tensor)}


def _steps_of(trace: Trace, *equations: str) -> list[Step]:
    return [step for step in trace.tape.steps if step.kept and step.equation.name in equations]


def _rise(trace: Trace, value: Tensor) -> Tensor:
    if trace.gradients is None:
        raise TapeError("the trace did not go backward: trace with backward= to know who mattered")
    gradient = trace.gradient_of(value)
    return value.new_zeros(value.shape) if gradient is None else -(gradient * value.detach())
