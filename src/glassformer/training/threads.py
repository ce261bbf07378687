"""How many threads a run computes with on a CPU: one where other programs use the cores."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch

from glassformer.training.device import Device

VARIABLE = "OMP_NUM_THREADS"
NUMBERS = 2**17  # that a kernel adds: enough for two threads to be faster, if each has a core
CALLS, ROUNDS = 20, 9  # kernels that are timed together, and how often
SLOWER = 1.5  # times the seconds of one thread, from which on more threads wait for each other


def fastest_threads(device: Device, report: Callable[[str], None]) -> int | None:
    """One, where all threads together are slower than one; None for as many as torch has.

    Threads wait for each other after every kernel. If another program has taken one of the cores, they wait for its
    time slice, thousands of times in a step.
    """
    threads = torch.get_num_threads()
    if device.device.type != "cpu" or threads == 1 or VARIABLE in os.environ:
        return None
    seconds: dict[int, list[float]] = {threads: [], 1: []}
    for _ in range(ROUNDS):
        for number, found in seconds.items():
            with using_threads(number):
                found.append(_seconds())
    if median(seconds[threads]) < SLOWER * median(seconds[1]):
        return None
    what = f"other programs use this machine, and {threads} threads are slower than 1"
    report(f"{what}: the run takes 1 ({VARIABLE} sets another number)")
    return 1


def _seconds() -> float:
    x = torch.ones(NUMBERS)
    y = torch.add(x, 1)
    began = time.perf_counter()
    for _ in range(CALLS):
        torch.add(x, 1, out=y)
    return time.perf_counter() - began


@contextmanager
def using_threads(number: int | None) -> Iterator[None]:
    """Compute with a number of threads while inside, and afterwards with as many as before."""
    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def resume_threads(number: int) -> None:
    """Take the number of threads that a run was begun with, unless the environment sets it or there are fewer cores."""
    if VARIABLE not in os.environ and number <= (os.cpu_count() or 1):
        torch.set_num_threads(number)
