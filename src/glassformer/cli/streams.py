"""Standard output and error of a command: UTF-8, with control characters escaped.

Everything on a terminal and all of standard error is escaped. Standard output to a file or a pipe keeps every byte, so
that generated text stays exact.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

from glassformer.views.console import escaped


class EscapingStream(io.TextIOBase):
    """A text stream that escapes control characters; `unescaped` is the stream behind it."""

    def __init__(self, unescaped: TextIO) -> None:
        self.unescaped = unescaped

    def write(self, text: str) -> int:
        """Write text with its control characters escaped."""
        self.unescaped.write(escaped(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream behind it."""
        self.unescaped.flush()

    def isatty(self) -> bool:
        """Whether the stream behind it is a terminal."""
        return self.unescaped.isatty()

    def fileno(self) -> int:
        """The file descriptor of the stream behind it."""
        return self.unescaped.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - read-only here
        """The encoding of the stream behind it."""
        return self.unescaped.encoding


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Escape control characters in everything that is written to a terminal."""
    _fill_closed_descriptors()
    with ExitStack() as stack:
        out, err = (_open_stream(stream, stack) for stream in (sys.stdout, sys.stderr))
        stack.enter_context(redirect_stdout(EscapingStream(out) if out.isatty() else out))
        stack.enter_context(redirect_stderr(EscapingStream(err)))
        yield


def _open_stream(stream: TextIO | None, stack: ExitStack) -> TextIO:
    """The stream in UTF-8 whatever the locale says, or the null device in place of a closed one."""
    if stream is None:
        return stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors=stream.errors)
    return stream


def _fill_closed_descriptors() -> None:
    """Open the null device for closed streams, before another file gets their descriptor and is written to."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null > 2:
                os.close(null)
