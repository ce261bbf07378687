"""A whole training step as one CUDA graph: the host hands over a batch and a few numbers, and launches it."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.training.device import Device

WARM_UP = 3  # steps of a shape before it is captured: kernels are compiled, and optimizers make their state
MOST = 8  # shapes that are captured; steps of any other run as they are
Shapes = tuple[tuple[str, torch.Size, torch.dtype], ...]


@dataclass(frozen=True)
class StepNumbers:
    """What a step needs beside its batches: numbers, or tensors on the device that hold them."""

    step: float | Tensor
    learning_rate: float | Tensor
    tokens: float | Tensor
    ema_weight: float | Tensor  # of the new weights in their moving average


Compute = Callable[[Sequence[Batch], StepNumbers], None]


class GraphedStep:
    """Runs a step's computation, from the second time that shapes recur often as a captured graph.

    The same kernels run in the same order, and draw the same random numbers, with the graph and without it.
    """

    def __init__(self, compute: Compute, device: Device) -> None:
        self._compute, self._device = compute, device
        self._stream = torch.cuda.Stream(device.device)
        self._pool = torch.cuda.graph_pool_handle()
        self._numbers = torch.zeros(4, device=device.device)
        self._seen: dict[Shapes, int] = {}
        self._captured: dict[Shapes, tuple[torch.cuda.CUDAGraph, list[Batch]]] = {}
        self.problem: str | None = None  # why nothing is captured any more
        self._unsaid: str | None = None  # the same, until it has been said

    def take_problem(self) -> str | None:
        """Why nothing is captured any more, once."""
        found, self._unsaid = self._unsaid, None
        return found

    def run(self, parts: Sequence[Batch], numbers: StepNumbers) -> None:
        """Take a step with batches that are on the host."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._on_stream(parts, numbers)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _on_stream(self, parts: Sequence[Batch], numbers: StepNumbers) -> None:
        given = torch.tensor(astuple(numbers), dtype=torch.float32).pin_memory()
        self._numbers.copy_(given, non_blocking=True)
        shapes = tuple((name, value.shape, value.dtype) for part in parts for name, value in part.items())
        if shapes not in self._captured and self._worth_capturing(shapes):
            self._capture(shapes, parts)
        if shapes not in self._captured:
            self._compute([self._device.move(part) for part in parts], self._on_device())
            return
        graph, static = self._captured[shapes]
        for part, here in zip(parts, static, strict=True):
            for name, value in part.items():  # expanded ones cannot be pinned
                here[name].copy_(value.contiguous().pin_memory(), non_blocking=True)
        graph.replay()

    def _on_device(self) -> StepNumbers:
        return StepNumbers(*self._numbers.unbind())

    def _worth_capturing(self, shapes: Shapes) -> bool:
        self._seen[shapes] = self._seen.get(shapes, 0) + 1
        return self._seen[shapes] > WARM_UP and len(self._captured) < MOST and self.problem is None

    def _capture(self, shapes: Shapes, parts: Sequence[Batch]) -> None:
        static = [self._device.move(part) for part in parts]
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may pin memory meanwhile.
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                self._compute(static, self._on_device())
        except RuntimeError as error:
            self._unsaid = self.problem = (
                f"steps run without a CUDA graph, which is slower: {str(error).splitlines()[0]}"
            )
            return
        self._captured[shapes] = graph, static
