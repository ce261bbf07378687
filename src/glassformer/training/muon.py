"""Muon for many matrices at once: those of one shape are orthogonalized together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Muon

from glassformer.equation import no_checks
from glassformer.equations.muon import orthogonalize

RMS = 0.2  # of the entries of an update, which is AdamW's: one learning rate serves both


class BatchedMuon(Muon):
    """torch's Muon with a few large products for all matrices instead of some small ones for each.

    The learning rate may be a tensor, and `found_inf` leaves everything as it is where it is 1, as in torch's fused
    optimizers: so a step can be captured in a CUDA graph.
    """

    _step_supports_amp_scaling = True
    found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for matrices in by_shape.values():
                self._update(matrices, group["lr"], group["weight_decay"], group["momentum"])

    def _update(self, matrices: Sequence[Tensor], rate: float | Tensor, decay: float, momentum: float) -> None:
        for matrix in matrices:
            self.state[matrix].setdefault("momentum_buffer", torch.zeros_like(matrix))
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        before = torch.stack(list(matrices)), torch.stack(buffers)
        gradient = torch.stack([matrix.grad for matrix in matrices if matrix.grad is not None])
        buffer = before[1].lerp(gradient, 1 - momentum)
        with no_checks():
            direction = orthogonalize(gradient.lerp(buffer, momentum).bfloat16()).to(gradient.dtype)
        factor = RMS * math.sqrt(max(matrices[0].shape))
        after = before[0] * (1 - rate * decay) - direction * (rate * factor), buffer
        for targets, old, new in zip((matrices, buffers), before, after, strict=True):
            kept = new if self.found_inf is None else torch.where(self.found_inf > 0, old, new)
            for target, value in zip(targets, kept, strict=True):
                target.copy_(value)
