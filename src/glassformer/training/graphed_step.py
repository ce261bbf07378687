"""The work of a step as one CUDA graph: the host hands over batches and a few numbers, and launches it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.training.device import Device

MOST = 8  # shapes that are captured; steps of any other run as they are
Shapes = tuple[tuple[str, torch.Size, torch.dtype], ...]
Compute = Callable[[Sequence[Batch], Tensor], None]  # of batches and numbers that are on the device


def shapes_of(parts: Sequence[Batch]) -> Shapes:
    """Name, shape and dtype of every tensor of these batches."""
    return tuple((name, value.shape, value.dtype) for part in parts for name, value in part.items())


class GraphedStep:
    """Runs the work of a step; shapes that were seen `warm_up` times are captured as a graph.

    The same kernels run in the same order, and draw the same random numbers, with the graph and without it. The work
    reads batches and `numbers` numbers, and writes into tensors that stay where they are. Work `beside` another uses
    the memory of its graphs, which keep nothing there between two steps.
    """

    def __init__(
        self,
        what: str,
        compute: Compute,
        device: Device,
        warm_up: int,
        numbers: int = 0,
        beside: "GraphedStep | None" = None,
    ) -> None:
        self._what, self._compute, self._device, self._warm_up = what, compute, device, warm_up
        self._stream = torch.cuda.Stream(device.device) if beside is None else beside._stream
        self._pool = torch.cuda.graph_pool_handle() if beside is None else beside._pool
        self._numbers = torch.zeros(numbers, device=device.device)
        self._seen: dict[Shapes, int] = {}
        self._captured: dict[Shapes, tuple[torch.cuda.CUDAGraph, list[Batch]]] = {}
        self.problem: str | None = None  # why nothing is captured any more
        self._unsaid: str | None = None  # the same, until it has been said

    @property
    def captured(self) -> int:
        """How many shapes have a graph."""
        return len(self._captured)

    def take_problem(self) -> str | None:
        """Why nothing is captured any more, once."""
        found, self._unsaid = self._unsaid, None
        return found

    def run(self, parts: Sequence[Batch], *numbers: float) -> None:
        """Take a step with batches that are on the host."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._on_stream(parts, numbers)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _on_stream(self, parts: Sequence[Batch], numbers: Sequence[float]) -> None:
        if numbers:
            self._numbers.copy_(torch.tensor(numbers, dtype=torch.float32).pin_memory(), non_blocking=True)
        shapes = shapes_of(parts)
        if shapes not in self._captured and self._worth_capturing(shapes):
            self._capture(shapes, parts)
        if shapes not in self._captured:
            self._compute([self._device.move(part) for part in parts], self._numbers)
            return
        graph, static = self._captured[shapes]
        for part, here in zip(parts, static, strict=True):
            for name, value in self._device.pinned(part).items():
                here[name].copy_(value, non_blocking=True)
        graph.replay()

    def _worth_capturing(self, shapes: Shapes) -> bool:
        self._seen[shapes] = self._seen.get(shapes, 0) + 1
        return self._seen[shapes] > self._warm_up and len(self._captured) < MOST and self.problem is None

    def _capture(self, shapes: Shapes, parts: Sequence[Batch]) -> None:
        static = [self._device.move(part) for part in parts]
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may pin memory meanwhile.
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                self._compute(static, self._numbers)
        except RuntimeError as error:
            why = f"{self._what} run without a CUDA graph, which is slower: {str(error).splitlines()[0]}"
            self._unsaid = self.problem = why
            return
        self._captured[shapes] = graph, static
