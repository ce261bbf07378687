"""The memory of a step at other sizes, from a few recordings: each tensor grows as the size does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from glassformer.planning.figures import Workload
from glassformer.planning.kernel_data import RecordedStep

Record = Callable[[Workload], RecordedStep]


@dataclass(frozen=True)
class Sizes:
    """Recordings of one step at several sizes of its batch, or of its length, and so at any other size.

    The bytes of a tensor are a polynomial of the size, of degree one in the batch and at most two in the length, so
    that two or three recordings give them exactly. Where those differ in their kernels, another size is recorded, and
    likewise one below `other_kernels`, from which on kernels are as they were recorded.
    """

    name: str
    workload: Workload
    steps: Sequence[tuple[int, RecordedStep]]
    record: Record
    other_kernels: int = 0

    def at(self, size: int) -> RecordedStep:
        """The step at a size."""
        first = self.steps[0][1]
        known = [known for known, _ in self.steps]
        if len({len(step.sizes) for _, step in self.steps}) > 1 or size < self.other_kernels <= min(known):
            return self.record(replace(self.workload, **{self.name: size}))
        weights = [_lagrange(size, known, index) for index in range(len(known))]
        columns = zip(*(step.sizes for _, step in self.steps), strict=True)
        sizes = [round(sum(w * s for w, s in zip(weights, column, strict=True))) for column in columns]
        return replace(first, sizes=sizes)


def _lagrange(x: int, known: Sequence[int], index: int) -> float:
    """The weight of one recording in the polynomial through all."""
    found = 1.0
    for other, value in enumerate(known):
        if other != index:
            found *= (x - value) / (known[index] - value)
    return found
