"""A training step as data: the kernels it calls, the storages they use, and the blocks that stand for others."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.kernel_calls import KernelCall

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True)
class EqualBlocks:
    """Consecutive equal blocks: their names as kept, the path of their list, and how many there are in the model."""

    path: str
    names: tuple[str, ...]
    first: int
    count: int

    @property
    def repeats(self) -> int:
        """How often the second block that was kept stands in the whole model."""
        return self.count - len(self.names) + 1


@dataclass(frozen=True)
class Tag:
    """Where a kernel belongs: its equation, its phase, and its block, "" outside of all."""

    equation: str
    phase: str
    block: str


@dataclass(frozen=True)
class RecordedStep:
    """The kernels of a step in order, and the storages they use: bytes, when made and when freed.

    Times count calls; a storage that lives to the end has the number of all calls, weights and inputs are made at -1.
    `runs` says which blocks stand for others that are equal.
    """

    calls: Sequence[KernelCall]
    tags: Sequence[Tag]
    sizes: Sequence[int]
    born: Sequence[int]
    died: Sequence[int]
    runs: Sequence[EqualBlocks]
    tokens: int

    @property
    def repeats(self) -> list[int]:
        """How often each call happens in the whole model."""
        times = {run.names[1]: run.repeats for run in self.runs}
        return [times.get(tag.block, 1) for tag in self.tags]


@dataclass(frozen=True)
class Kernel:
    """A kernel on the device: what it computes and moves, the calls it stands for, and the time of the first.

    `fresh` is the bytes of large tensors that it is the first to write.
    """

    at: int
    kind: str
    flops: int
    bytes: int
    numbers: int
    tag: Tag
    names: tuple[str, ...]
    fresh: int = 0


@dataclass(frozen=True)
class Lifetimes:
    """Storages in memory: number, bytes, the call that makes each, and the number of calls when it is freed."""

    numbers: Sequence[int]
    sizes: Sequence[int]
    born: Sequence[int]
    died: Sequence[int]
