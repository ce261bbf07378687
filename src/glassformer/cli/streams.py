"""Standard streams of a command: open even where the shell closed them, with warnings on one line."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def standard_streams() -> Iterator[None]:
    """Run a command with all three streams open, and show a warning as what it says, without its source line."""
    open_closed_streams()
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        yield


def open_closed_streams() -> None:
    """Put the null device in the place of closed streams, before a file gets their number and is written into.

    `sys.stdin` stays None where it was closed: a command that reads it says so.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null > 2:
                os.close(null)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, line
    print(f"glassformer: warning: {' '.join(str(message).split())}", file=file or sys.stderr)
