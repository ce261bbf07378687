"""Batches from a thread: the same ones, a position that is not ahead, an end, and errors where they are looked for."""

import gc
import threading
import time
from itertools import islice

import pytest

from glassformer.data.batches import Batch, Rows
from glassformer.data.padded_batches import PairBatches
from glassformer.data.prefetched import Prefetched
from tests.data.test_batches import ALL, END, PAD, PAIRS, START, same


def running() -> int:
    return sum(thread.name == "batches" for thread in threading.enumerate())


class Counted(PairBatches):
    """Pairs that count how many batches were made, and fail at one."""

    made, fails_at = 0, -1

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        if self.made == self.fails_at:
            raise ValueError("this batch cannot be made")
        self.made += 1
        return super()._make(rows, epoch, index)


def counted(fails_at: int = -1) -> Counted:
    batches = Counted(PAIRS, 150, PAD, START, END, 0)
    batches.fails_at = fails_at
    return batches


def test_the_position_is_that_of_the_last_batch_handed_out() -> None:
    source = counted()
    batches = Prefetched(source, ahead=3)
    before = running()
    for number in range(30):
        next(batches)
        deadline = time.monotonic() + 5
        while source.made < number + 4 and time.monotonic() < deadline:  # three, and one that waits for room
            time.sleep(0.002)
        assert number + 1 < source.made <= number + 5, "some are made ahead, and not more than asked for"
    state = batches.state()
    assert running() == before + 1
    batches.close()
    batches.close()
    assert running() == before
    plain = ALL["pairs"]()
    wanted = list(islice(plain, 40))
    assert state["epoch"] > 0 and batches.state() == state
    assert all(map(same, islice(batches, 10), wanted[30:])), "it goes on where it ended"
    batches.close()


def test_an_error_comes_after_the_batches_before_it() -> None:
    batches = Prefetched(counted(fails_at=4), ahead=2)
    assert all(map(same, islice(batches, 4), ALL["pairs"]()))
    for _ in range(2):
        with pytest.raises(ValueError, match="this batch cannot be made"):
            next(batches)
    batches.close()


def test_evaluation_and_estimates_do_not_disturb_it() -> None:
    batches, plain = Prefetched(counted(), ahead=3), ALL["pairs"]()
    for _ in range(12):
        assert same(next(batches), next(plain))
        assert all(map(same, batches.first(5), ALL["pairs"]().first(5)))
        assert all(map(same, batches.once(), plain.once()))
    batches.close()


def test_a_thread_ends_with_what_it_works_for() -> None:
    batches = Prefetched(counted(), ahead=2)
    next(batches)
    before = running()
    del batches
    gc.collect()
    deadline = time.monotonic() + 5
    while running() >= before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running() < before


def test_a_thread_that_nobody_asks_anything_ends_when_told() -> None:
    batches = Prefetched(counted(), ahead=2)
    next(batches)
    began = time.monotonic()
    batches.close()
    assert time.monotonic() - began < 2
