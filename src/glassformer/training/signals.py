"""Ctrl-C, SIGTERM and SIGHUP during a run: finish the step, save, exit; a second signal exits at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """The signal that asked the run to stop, if one did."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._terminals = [number for number in (0, 1, 2) if os.isatty(number)]

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Note the first signal, and restore the default action for the next one."""
        self.signal = signal.Signals(number)
        for each in SIGNALS:
            if signal.getsignal(each) == self.receive:
                # A terminal that closes sends SIGHUP twice, through the shell and by itself.
                signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else signal.SIG_DFL)
        if number == signal.SIGHUP:
            self._leave_terminal()

    def _leave_terminal(self) -> None:
        """Write to the null device from now on: writing to a terminal that is gone is an error."""
        for number in self._terminals:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            os.close(null)


@contextmanager
def catch_signals() -> Iterator[StopRequest]:
    """Turn signals into a request while inside; only a main thread can handle them.

    A signal that is ignored stays ignored, as `nohup` wants it.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, request.receive) for each in handled}
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
