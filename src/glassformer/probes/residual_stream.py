"""Through the layers: the rows as they go from one to the next, their lengths, and their gradients' lengths."""

import re

import torch
from torch import Tensor

from glassformer.errors import TapeError
from glassformer.probes.trace import Trace
from glassformer.steps import Step


def residual_stream(trace: Trace, stack: str | None = None) -> list[Tensor]:
    """The rows that enter the first layer, then those that leave each; of the last stack that ran, or a named one."""
    if not all(step.kept for step in trace.tape.steps):
        raise TapeError("the tape kept only some values: record the whole run, and narrow a trace with select()")
    layers: dict[str, dict[int, list[Step]]] = {}
    for step in trace.tape.steps:
        found = re.match(r"(?:(.*)\.)?layers\.(\d+)\.", trace.names[step.path])
        if found:
            layers.setdefault(found[1] or "", {}).setdefault(int(found[2]), []).append(step)
    chosen = list(layers)[-1:] if stack is None else [name for name in layers if name == stack]
    if not chosen:
        has = f"the model has {', '.join(layers)}" if layers else "the model has none"
        raise TapeError(f"there is no stack of layers{'' if stack is None else f' called {stack!r}'}; {has}")
    runs = [steps for _, steps in sorted(layers[chosen[0]].items())]
    for place, name in trace.names.places.items():
        if re.fullmatch(rf"(?:{re.escape(chosen[0])}\.)?layers\.\d+", name) and trace.tape.calls[place] > 1:
            raise TapeError(f"{name} runs {trace.tape.calls[place]} times, once for each token: there is no stream")
    rows = [runs[0][0].input_tensors[0], *(steps[-1].output for steps in runs)]
    for before, steps in zip(rows[1:], runs[1:], strict=False):
        if not any(tensor is before for step in steps for tensor in step.input_tensors):
            raise TapeError(f"{trace.names[steps[0].path]} does not go on from the layer before: there is no stream")
    return rows


def stream_norms(trace: Trace, stack: str | None = None) -> Tensor:
    """The mean length of a row at every depth, the input of the first layer first."""
    return torch.stack([rows.detach().norm(dim=-1).mean() for rows in residual_stream(trace, stack)])


def gradient_norms(trace: Trace, stack: str | None = None) -> Tensor:
    """The length of the loss's gradient with respect to all rows at every depth."""
    return torch.stack([_gradient(trace, rows).norm() for rows in residual_stream(trace, stack)])


def weight_gradient_norms(trace: Trace) -> dict[str, Tensor]:
    """The length of the loss's gradient with respect to every parameter, by name."""
    found = {trace.source_of(p): trace.gradient_of(p) for p in trace.model.parameters()}
    return {name: gradient.norm() for name, gradient in found.items() if gradient is not None}


def _gradient(trace: Trace, rows: Tensor) -> Tensor:
    if trace.gradients is None:
        raise TapeError("the trace did not go backward: trace with backward= to have gradients")
    found = trace.gradient_of(rows)
    return torch.zeros_like(rows) if found is None else found
