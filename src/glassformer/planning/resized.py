"""The memory of a step at other sizes, from a few recordings: each tensor grows as the size does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from glassformer.kernel_calls import KernelCall
from glassformer.planning.figures import Workload
from glassformer.planning.kernel_data import RecordedStep

Record = Callable[[Workload], RecordedStep]


@dataclass(frozen=True)
class Sizes:
    """Recordings of one step at several sizes of its batch, or of its length, and so at any other size.

    The bytes of a tensor, and what a call reads, writes and computes, are polynomials of the size, of degree one in the
    batch and at most two in the length, so that two or three recordings give them exactly. Where those differ in their
    kernels, another size is recorded, and likewise one below `other_kernels`, from which on kernels are as recorded.
    """

    name: str
    workload: Workload
    steps: Sequence[tuple[int, RecordedStep]]
    record: Record
    other_kernels: int = 0

    @cached_property
    def _alike(self) -> bool:
        """Whether all recordings have the same calls on the same storages."""
        shapes = [
            [len(step.sizes), *((call.name, *(n for n, _ in (*call.reads, *call.writes))) for call in step.calls)]
            for _, step in self.steps
        ]
        return all(shape == shapes[0] for shape in shapes)

    def at(self, size: int) -> RecordedStep:
        """The step at a size."""
        first = self.steps[0][1]
        known = [known for known, _ in self.steps]
        if not self._alike or size < self.other_kernels <= min(known):
            return self.record(replace(self.workload, **{self.name: size}))
        weights = [_lagrange(size, known, index) for index in range(len(known))]
        columns = zip(*(step.sizes for _, step in self.steps), strict=True)
        calls = zip(*(step.calls for _, step in self.steps), strict=True)
        return replace(
            first,
            sizes=[_mixed(weights, column) for column in columns],
            calls=[_resized(weights, same) for same in calls],
        )


def _resized(weights: Sequence[float], same: Sequence[KernelCall]) -> KernelCall:
    """A call at another size, from the same call of every recording."""

    def bytes_of(storages: Sequence[Sequence[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
        columns = zip(*storages, strict=True)
        return tuple((column[0][0], _mixed(weights, [size for _, size in column])) for column in columns)

    return replace(
        same[0],
        flops=_mixed(weights, [call.flops for call in same]),
        tiled=_mixed(weights, [call.tiled for call in same]),
        numbers=_mixed(weights, [call.numbers for call in same]),
        reads=bytes_of([call.reads for call in same]),
        writes=bytes_of([call.writes for call in same]),
    )


def _mixed(weights: Sequence[float], values: Sequence[int]) -> int:
    return round(sum(w * v for w, v in zip(weights, values, strict=True)))


def _lagrange(x: int, known: Sequence[int], index: int) -> float:
    """The weight of one recording in the polynomial through all."""
    found = 1.0
    for other, value in enumerate(known):
        if other != index:
            found *= (x - value) / (known[index] - value)
    return found
