"""Batches that are made by a thread while the device computes."""

import queue
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from glassformer.data.batches import Batch, Batches, Plan, Rows

AHEAD = 3  # batches that are made before they are asked for
PATIENCE = 0.1  # seconds after which a thread looks whether it is still wanted


class Prefetched(Batches):
    """The same batches in the same order, the next ones made ahead by a thread.

    The position is that after the last batch that was handed out, whatever has been made since. The thread begins
    with the first batch, and ends with `close`, `resume` or this object.
    """

    def __init__(self, batches: Batches, ahead: int = AHEAD) -> None:
        super().__init__(batches.seed, batches.rank, batches.world)
        self.batches, self.ahead, self.longest = batches, ahead, batches.longest
        self._worker: _Worker | None = None
        self._epoch, self._index = batches.position

    def __next__(self) -> Batch:
        if self._worker is None:
            self._worker = _Worker(self.batches, self.ahead)
            weakref.finalize(self, self._worker.end)
        batch, (self._epoch, self._index) = self._worker.next()
        return batch

    def close(self) -> None:
        """End the thread; the next batch begins another one, at the position reached."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
            self.batches.resume(self.state())

    def resume(self, state: Mapping[str, int]) -> None:
        """Restore the position of a state."""
        self.close()
        self.batches.resume(state)
        self._epoch, self._index = self.batches.position

    def settings(self) -> dict[str, int]:
        """Those of the batches."""
        return self.batches.settings()

    def identity(self) -> dict[str, int]:
        """That of the batches."""
        return self.batches.identity()

    def once(self) -> Iterator[Batch]:
        """One pass in the order of the data; the position does not change."""
        return self.batches.once()

    def first(self, count: int) -> Iterator[Batch]:
        """The first batches of training; the position does not change."""
        return self.batches.first(count)

    def _sample(self) -> Iterator[Sequence[int]]:
        return self.batches._sample()

    def _shuffled(self, random: np.random.Generator) -> Plan:
        return self.batches._shuffled(random)

    def _in_order(self) -> Plan:
        return self.batches._in_order()

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        return self.batches._make(rows, epoch, index)


class _Worker:
    """A thread that makes batches until there are enough, and the positions after them."""

    def __init__(self, batches: Batches, ahead: int) -> None:
        self._made: queue.Queue[tuple[Batch, tuple[int, int]] | BaseException] = queue.Queue(ahead)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(batches,), name="batches", daemon=True)
        self._thread.start()

    def next(self) -> tuple[Batch, tuple[int, int]]:
        """The next batch, or the error that making it raised."""
        found = self._made.get()
        if isinstance(found, BaseException):
            self._made.put(found)  # for whoever asks again
            raise found
        return found

    def end(self) -> None:
        """Let the thread end after the batch it is making."""
        self._ended.set()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self.end()
        self._thread.join()

    def _run(self, batches: Batches) -> None:
        try:
            while not self._ended.is_set():
                self._put((next(batches), batches.position))
        except Exception as error:
            self._put(error)

    def _put(self, found: tuple[Batch, tuple[int, int]] | BaseException) -> None:
        while not self._ended.is_set():
            try:
                return self._made.put(found, timeout=PATIENCE)
            except queue.Full:
                continue
