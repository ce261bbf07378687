"""Endless batches, shuffled, padded or packed, whose position can be saved and resumed."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Int64
from torch import Tensor

from glassformer.errors import DataError

Batch = dict[str, Tensor]
Rows = Int64[np.ndarray, " _"]  # the numbers of the rows of a batch
Plan = Sequence[Rows]

IGNORE = -100  # a target that does not count, as in cross_entropy
WEIGHTS = "weights"  # of the targets in the loss; a batch without them weighs all alike
SAMPLED = 2**16  # texts, pairs or tokens in the checksum of the data
OF_THE_DATA = ("pairs", "texts", "tokens", "rows", "pictures", "checksum")  # in an identity; the rest are settings


class Batches(ABC):
    """Endless batches, in an order that depends only on the seed and the epoch.

    `state` returns the position, and `resume` restores it. Of `world` processes each gets every world-th row of the
    same batches, beginning with its `rank`. `longest` is the most tokens of a sequence where several share a row.
    """

    longest: int | None = None

    def __init__(self, seed: int, rank: int, world: int) -> None:
        if seed < 0:
            raise DataError(f"seed is {seed}, wanted 0 or more")
        if not 0 <= rank < world:
            raise DataError(f"rank is {rank} of {world}, wanted 0 to {world - 1}")
        self.seed, self.rank, self.world = seed, rank, world
        self._epoch = self._index = 0
        self._planned: tuple[int, Plan] | None = None

    @abstractmethod
    def settings(self) -> dict[str, int]:
        """The sizes that the order depends on; a state can be resumed only where they are the same."""

    @abstractmethod
    def _sample(self) -> Iterator[Sequence[int]]:
        """Ids from all parts of the data."""

    @cached_property
    def _checksum(self) -> int:
        """A checksum of a sample of the data."""
        found = 0
        for ids in self._sample():
            found = zlib.crc32(np.asarray(ids, dtype=np.int64).tobytes(), found)
        return found

    @abstractmethod
    def _shuffled(self, random: np.random.Generator) -> Plan:
        """The rows of each batch of an epoch, shuffled."""

    @abstractmethod
    def _in_order(self) -> Plan:
        """The rows of each batch of one pass, in the order of the data."""

    @abstractmethod
    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        """This process's part of a batch."""

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._index == len(self._plan(self._epoch)):
            self._epoch, self._index = self._epoch + 1, 0
        batch = self._make(self._plan(self._epoch)[self._index], self._epoch, self._index)
        self._index += 1
        return batch

    def once(self) -> Iterator[Batch]:
        """One pass in the order of the data, for evaluation; the position does not change."""
        for index, rows in enumerate(self._in_order()):
            yield self._make(rows, 0, index)

    @property
    def in_one_pass(self) -> int:
        """The number of batches of `once`."""
        return len(self._in_order())

    def first(self, count: int) -> Iterator[Batch]:
        """The first batches of training, at most one epoch of them; the position does not change."""
        for index, rows in enumerate(self._plan(0)[:count]):
            yield self._make(rows, 0, index)

    def identity(self) -> dict[str, int]:
        """What distinguishes these batches from others: the seed, the sizes, a checksum of the data."""
        return {"seed": self.seed} | self.settings() | {"checksum": self._checksum}

    @property
    def position(self) -> tuple[int, int]:
        """The epoch, and the index of the next batch in it."""
        return self._epoch, self._index

    def state(self) -> dict[str, int]:
        """The position: epoch, index of the next batch in it, and the identity of the data."""
        epoch, index = self.position
        return {"epoch": epoch, "index": index} | self.identity()

    def resume(self, state: Mapping[str, int]) -> None:
        """Restore the position of a state."""
        for name in ("epoch", "index"):
            if name not in state:
                raise DataError(f"the position in the data has no {name!r}")
        require_same_data(self.identity(), state)
        epoch, index = state["epoch"], state["index"]
        if epoch < 0 or not 0 <= index <= len(self._plan(epoch)):
            raise DataError(f"the position in the data is batch {index} of epoch {epoch}, which does not exist")
        self._epoch, self._index = epoch, index

    def _plan(self, epoch: int) -> Plan:
        planned = self._planned  # a copy, because another thread may ask for another epoch
        if planned is None or planned[0] != epoch:
            planned = self._planned = epoch, self._shuffled(generator(self.seed, epoch))
        return planned[1]


def require_same_data(now: Mapping[str, int], before: Mapping[str, int], what: str = "the data") -> None:
    """Raise unless batches have the identity that a checkpoint holds; `what` names the data."""
    for name, here in now.items():
        if name not in before:
            raise DataError(f"the position in {what} has no {name!r}")
        if before[name] != here and name in OF_THE_DATA:
            changed = f"{what} has changed since the run began ({name} {before[name]}, now {here})"
            raise DataError(f"{changed}: put it back as it was, or begin another run")
        if before[name] != here:
            raise DataError(f"the position in {what} is for {name} {before[name]}, here {name} is {here}")


def generator(seed: int, *key: int) -> np.random.Generator:
    """A separate random generator for every key."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def require_rows(batch: int, world: int) -> None:
    """Refuse batches that would leave a process without a row."""
    if batch < world:
        raise DataError(f"a batch of {batch} rows, wanted at least {world}: one for each process")


def sample_stride(count: int) -> int:
    """The step between the rows that go into the checksum of the data."""
    return max(1, count // SAMPLED)
