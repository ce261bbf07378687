"""Interventions: ablation, activation patching, and first-order attribution."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from glassformer.equations.algebra import residual
from glassformer.errors import TapeError
from glassformer.probes.attention_steps import attention_steps

if TYPE_CHECKING:
    from glassformer.probes.trace import Trace

Change: TypeAlias = Tensor | Callable[[Tensor], Tensor]


@torch.no_grad()
def patch(trace: "Trace", changes: Mapping[str, Change], of: Tensor | None = None) -> Tensor:
    """The output of the model when intermediates are replaced by tensors or by functions of their values.

    Only what depends on them runs again. `of` asks for another tensor of the run, such as `trace.loss`. Ablate with
    `{"layers.0.attention.outputs": on_head(3, torch.zeros_like)}`; patch with `{name: other_trace[name].value}`.
    """
    wanted = trace.output if of is None else of
    if not isinstance(wanted, Tensor):
        raise TapeError(f"the model gives a {type(wanted).__name__}: name the tensor to give with `of`")
    swapped: list[tuple[Tensor, Tensor]] = []
    for name, change in changes.items():
        old = trace[name].step.output
        new = change if isinstance(change, Tensor) else change(old.detach())
        if new.shape != old.shape:
            raise TapeError(f"{name} has shape {list(old.shape)}, and cannot be replaced by one of {list(new.shape)}")
        swapped.append((old, new.to(old)))
    found = trace.tape.replay(deep=True, changes=swapped, of=wanted)
    if not isinstance(found, Tensor):
        raise TapeError("the run gives no tensor")
    return found


def on_head(head: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same change for one head only, of a tensor [batch, heads, seq, head_dim]."""
    return _on_axis(-3, head, change)


def on_token(token: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same change for one token only, of a tensor [..., seq, dim]."""
    return _on_axis(-2, token, change)


def _on_axis(axis: int, index: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def changed(value: Tensor) -> Tensor:
        if value.dim() < -axis or not -value.shape[axis] <= index < value.shape[axis]:
            what = "head" if axis == -3 else "token"
            raise TapeError(f"a tensor of shape {list(value.shape)} has no {what} {index}")
        new = value.clone()
        new.select(axis, index).copy_(change(value.select(axis, index)))
        return new

    return changed


def head_attribution(trace: "Trace") -> dict[str, Tensor]:
    """For every attention the rise of the loss [heads] if a head's output were zero: −⟨gradient, value⟩."""
    found = attention_steps(trace.tape.steps)
    return {trace.names[step.path]: _rise(trace, step.output).sum((0, 2, 3)) for step in found}


def layer_attribution(trace: "Trace") -> dict[str, Tensor]:
    """For every sublayer the rise of the loss if it added nothing to the residual stream, to first order."""
    added = [step.inputs["f"] for step in trace.tape.steps if step.kept and step.equation is residual]
    return {trace.source_of(f): _rise(trace, f).sum() for f in added if isinstance(f, Tensor)}


def _rise(trace: "Trace", value: Tensor) -> Tensor:
    trace.require_gradients()
    gradient = trace.gradient_of(value)
    return torch.zeros_like(value) if gradient is None else -(gradient * value.detach())
