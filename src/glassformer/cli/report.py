"""How commands speak: data on standard output, talk on standard error, an exit status, no tracebacks."""

import difflib
import io
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from shutil import get_terminal_size
from typing import Annotated, TypeAlias

import msgspec
from cyclopts import CycloptsError, Parameter
from rich.console import Console

from glassformer.errors import GlassformerError
from glassformer.views.tables import FittingTable

FAILED = 1
BAD_USE = 2
INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended
PIPE_CLOSED = 141  # and for one whose reader went away
PAGE_WIDTH = 120  # columns where nothing says how many there are

Json: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False, help="Write JSON instead of text.")]


class UsageError(GlassformerError):
    """The command line asks for something that does not exist; exit status 2."""


def run(command: Callable[[], int | None], debug: bool) -> int:
    """Run a command and turn whatever happens into an exit status, with one line of error at most."""
    _write_utf8()
    try:
        status = command() or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes standard output once more on its way out, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if debug:
            raise
        return _explain(error)
    return status


def _write_utf8() -> None:
    """Write UTF-8 whatever the locale says: data has letters that others cannot hold."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _explain(error: Exception) -> int:
    if isinstance(error, CycloptsError):
        talk(f"error: {' '.join(str(error).split())}")
        return BAD_USE
    if isinstance(error, GlassformerError):
        talk(f"error: {error}")
        return BAD_USE if isinstance(error, UsageError) else FAILED
    if isinstance(error, OSError) and error.filename is not None:
        talk(f"error: {error.filename}: {error.strerror}")
        return FAILED
    if type(error).__name__ in ("OutOfMemoryError", "MemoryError") or "can't allocate memory" in str(error):
        talk("error: there is not enough memory for this: take a smaller model, batch or length, or another device")
        return FAILED
    talk(f"unexpected error: {type(error).__name__}: {error} (run again with --debug to see where)")
    return FAILED


def talk(text: str) -> None:
    """Say something to the person at the terminal, out of the way of the data."""
    print(f"glassformer: {text}", file=sys.stderr)


def did_you_mean(name: str, names: Iterable[str], command: str) -> str:
    """The end of an error about an unknown name: the nearest ones, or the command that lists them all."""
    close = difflib.get_close_matches(name, names, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"`{command}` lists them all"


def write(text: str = "") -> None:
    """Write lines of data."""
    print(text)


def page_width() -> int:
    """How many columns there are to write in."""
    return get_terminal_size((PAGE_WIDTH, 40)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else PAGE_WIDTH


def write_text(text: str) -> None:
    """Write sentences that break between words, so that a terminal splits no number; indents stay."""
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        write(
            textwrap.fill(line, page_width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        )


def write_json(value: object) -> None:
    """Write data as JSON; a number that is none comes out as null, since JSON has no word for it."""
    write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Write a table that fits the terminal, and a blank line; cells are plain text, never markup."""
    terminal = sys.stdout.isatty()
    text = io.StringIO()  # rich would end the program itself on a closed pipe, with another status
    console = Console(
        file=text,
        force_terminal=terminal or None,
        width=page_width(),
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(FittingTable(columns, list(rows), title))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    write("\n".join(lines).strip("\n") + "\n")
