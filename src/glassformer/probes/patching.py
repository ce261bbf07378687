"""Change a number inside a run and see what comes out: ablation and activation patching by name."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from glassformer.errors import TapeError
from glassformer.probes.trace import Trace

Change: TypeAlias = Tensor | Callable[[Tensor], Tensor]


@torch.no_grad()
def patch(trace: Trace, changes: Mapping[str, Change], of: Tensor | None = None) -> Tensor:
    """What the model says when intermediates are replaced, by a tensor or by a function of what they were.

    Only what depends on them runs again. `of` asks for another tensor of the run, such as `trace.loss`. Ablate with
    `{"layers.0.attention.outputs": on_head(3, torch.zeros_like)}`; patch with `{name: other_trace[name].value}`.
    """
    wanted = trace.output if of is None else of
    if not isinstance(wanted, Tensor):
        raise TapeError(f"the model gives a {type(wanted).__name__}: say with `of` which tensor to look at")
    swapped = [(trace[name].step.output, _changed(trace, name, change)) for name, change in changes.items()]
    found = trace.tape.replay(deep=True, changes=swapped, of=wanted)
    if not isinstance(found, Tensor):
        raise TapeError("the run gives no tensor")
    return found


def on_head(head: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same change for one head alone, of a number [batch, heads, seq, head_dim]."""
    return _on_axis(-3, head, change)


def on_token(token: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same change for one token alone, of a number [..., seq, dim]."""
    return _on_axis(-2, token, change)


def _on_axis(axis: int, place: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def changed(value: Tensor) -> Tensor:
        if value.dim() < -axis or not -value.shape[axis] <= place < value.shape[axis]:
            what = "heads" if axis == -3 else "tokens"
            raise TapeError(f"a number of shape {list(value.shape)} has no place {place} among its {what}")
        new = value.clone()
        new.select(axis, place).copy_(change(value.select(axis, place)))
        return new

    return changed


def _changed(trace: Trace, name: str, change: Change) -> Tensor:
    old = trace[name].step.output.detach()
    new = change if isinstance(change, Tensor) else change(old)
    if new.shape != old.shape:
        raise TapeError(f"{name} has shape {list(old.shape)}, and cannot be replaced by one of {list(new.shape)}")
    return new.to(old)
