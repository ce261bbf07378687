"""Ctrl-C and SIGTERM during a run: finish the step, save, leave; a second one leaves at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Note the first signal, and let the next one end the program as it would have without us."""
        self.signal = signal.Signals(number)
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)


@contextmanager
def stopping_politely() -> Iterator[StopRequest]:
    """Turn signals into a request while inside; only a main thread can listen for them."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {each: signal.signal(each, request.receive) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
