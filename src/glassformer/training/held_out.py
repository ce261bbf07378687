"""The loss on held-out data: summed on the device, so that the host waits for it once in each pass."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from glassformer.data.batches import Batch, Batches
from glassformer.equation import no_checks
from glassformer.torch_private import uncompiled
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE, ProcessGroup
from glassformer.training.graphed_step import GraphedStep, Shapes, shapes_of

WARM_UP = 1  # batches of a shape before it is captured: there is no optimizer whose state has to be made


class HeldOutLoss:
    """Mean loss over every target of one pass, without label smoothing and without dropout.

    Where steps are captured as CUDA graphs, so are the batches of shapes that recur, in this pass or in the next. Only
    batches of the shapes `compiled` run in compiled code, so that no other shape is ever compiled for an evaluation.
    """

    def __init__(
        self,
        loss_module: nn.Module,
        device: Device,
        process_group: ProcessGroup = ALONE,
        compiled: Shapes | None = None,
        beside: GraphedStep | None = None,
    ) -> None:
        self._loss_module, self._device, self._process_group = loss_module, device, process_group
        self._compiled = compiled
        self._sums = torch.zeros(2, dtype=torch.float64, device=device.device)  # loss and targets
        graphs = device.graphs and process_group.world_size == 1
        self.graphed = GraphedStep("evaluations", self._add, device, WARM_UP, beside=beside) if graphs else None

    @torch.no_grad()
    def __call__(self, batches: Batches) -> float:
        """The loss over one pass of the batches."""
        before = self._loss_module.training
        self._loss_module.eval()
        self._sums.zero_()
        for batch in batches.once():
            if self.graphed is None:
                self._add([self._device.move(batch)])
            else:
                self.graphed.run([batch])
        self._loss_module.train(before)
        total, targets = self._process_group.sum(self._sums).tolist()
        return total / (targets or 1)

    def _add(self, parts: Sequence[Batch], _numbers: Tensor | None = None) -> None:
        """Add the loss and the targets of a batch to the sums."""
        (batch,) = parts
        with no_checks(), self._device.autocast(), self._stance(batch):
            loss, count = self._loss_module(batch, 0.0)
        self._sums.add_(torch.stack([loss.double(), count.double()]))

    def _stance(self, batch: Batch) -> AbstractContextManager[object]:
        compiled = shapes_of([batch]) == self._compiled
        return nullcontext() if compiled else uncompiled()
