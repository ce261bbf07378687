"""Command output: data on standard output, messages on standard error, exit status, errors without tracebacks."""

import io
import math
import os
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import is_dataclass
from enum import IntEnum
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from cyclopts import CycloptsError, Parameter, Token, UnknownOptionError, UnusedCliTokensError

from glassformer.cli.streams import guarded_streams
from glassformer.errors import BAD_USE, FAILED, GlassformerError
from glassformer.suggestions import did_you_mean
from glassformer.views.console import SafeConsole, escaped, escaped_line
from glassformer.views.tables import FittingTable

WRONG_PATHS = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
INTERRUPTED = 130  # exit status after Ctrl-C, as shells report it
PIPE_CLOSED = 141  # exit status after SIGPIPE
PAGE_WIDTH = 120  # columns where there is no terminal

T = TypeVar("T")


class Level(IntEnum):
    """How much a command says on standard error; errors and warnings always come."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_LEVEL: ContextVar[Level] = ContextVar("level", default=Level.NORMAL)
Flag: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False)]
Json: TypeAlias = Annotated[Flag, Parameter(help="Print JSON instead of text.")]


def _given_path(kind: object, tokens: Sequence[Token]) -> Path:
    """A path from the command line; an empty one would mean the current folder."""
    del kind
    (token,) = tokens
    if not token.value:
        raise ValueError("the path is empty")
    return Path(token.value)


SomePath: TypeAlias = Annotated[Path, Parameter(converter=_given_path)]
MaybePath: TypeAlias = Annotated[Path | None, Parameter(converter=_given_path)]
RunStep: TypeAlias = Annotated[
    int | None,
    Parameter(help="Step of the checkpoint to load; if left out, the finished model, or else the best checkpoint."),
]


def require_exists(path: Path | str) -> None:
    """Raise if an input does not exist, before any work."""
    if not os.path.exists(path):
        raise UsageError(f"{path or 'the path'}: {'no such file or folder' if path else 'is empty'}")


class UsageError(GlassformerError):
    """A wrong command line: something that does not exist, or options that conflict; exit status 2."""

    status = BAD_USE


def named(what: str, name: str, known: Mapping[str, T], command: str) -> T:
    """The entry of this name, or an error with the nearest names; `command` lists all of them."""
    if name not in known:
        hint = did_you_mean(name, known, f"`glassformer {command}` lists them all")
        raise UsageError(f"there is no {what} {name!r}; {hint}")
    return known[name]


@contextmanager
def named_as_options(*arguments: str) -> Iterator[None]:
    """Let the errors of a function call its arguments by the options they come from."""
    try:
        yield
    except GlassformerError as error:
        option = re.compile(rf"\b({'|'.join(arguments)})\b(=\"(\w+)\")?")
        text = option.sub(lambda found: f"--{found[1].replace('_', '-')} {found[3] or ''}".rstrip(), str(error))
        error.args = (text,)
        raise


def run(command: Callable[[], int | None], debug: bool) -> int:
    """Run a command and return its exit status; an error is printed as one line."""
    with guarded_streams(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = command() or 0
            sys.stdout.flush()
        except BrokenPipeError:
            # The interpreter flushes standard output again at exit, and would raise again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:
            if debug:
                print("".join(traceback.format_exception(error)), end="", file=sys.stderr)
            return _explain(error, "" if debug else " (run again with --debug to see where)")
    return status


def _explain(error: Exception, hint: str) -> int:
    if isinstance(error, CycloptsError):
        complain(f"error: {_parsing_fault(error)}")
        return BAD_USE
    if isinstance(error, GlassformerError):
        complain(f"error: {error}")
        return error.status
    if isinstance(error, OSError) and error.filename is not None:
        complain(f"error: {error.filename}: {error.strerror}")
        return BAD_USE if isinstance(error, WRONG_PATHS) else FAILED
    if type(error).__name__ in ("OutOfMemoryError", "MemoryError") or "can't allocate memory" in str(error):
        complain("error: out of memory: use a smaller model, batch or length, or another device")
        return FAILED
    text = " ".join(str(error).split())  # messages of other libraries may have several lines
    complain(f"unexpected error: {type(error).__name__}: {text}{hint}")
    return FAILED


def _parsing_fault(error: CycloptsError) -> str:
    """A parsing error on one line."""
    text = " ".join(str(error).split())
    if isinstance(error, UnknownOptionError):
        name = error.token.keyword or error.token.value
        if text.endswith(f"Did you mean {name}?"):  # the parser does not mention the `--` before it
            return f"{name} comes after `--`, where options are not read: put it before the `--`"
    if isinstance(error, UnusedCliTokensError):
        return f"unexpected argument: {' '.join(error.unused_tokens or ())}"
    return text


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """A warning as one line, without the source line that raised it."""
    del where, more
    complain(f"warning: {' '.join(str(message).split())}")


@contextmanager
def talking(level: Level) -> Iterator[None]:
    """Set how much a command says on standard error while it runs."""
    token = _LEVEL.set(level)
    try:
        yield
    finally:
        _LEVEL.reset(token)


def is_quiet() -> bool:
    """Whether --quiet is given."""
    return _LEVEL.get() == Level.QUIET


def talk(text: str, verbose: bool = False) -> None:
    """Print a message as one line on standard error, unless --quiet is given; a verbose one only with --verbose."""
    if _LEVEL.get() >= (Level.VERBOSE if verbose else Level.NORMAL):
        complain(text)


def complain(text: str) -> None:
    """Print an error or a warning as one line on standard error."""
    print(escaped_line(f"glassformer: {text}"), file=sys.stderr)


def write(text: str = "") -> None:
    """Print text on standard output."""
    print(text)


def page_width() -> int:
    """Columns of the terminal, or of a page where there is none."""
    return get_terminal_size((PAGE_WIDTH, 40)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else PAGE_WIDTH


def write_text(text: str) -> None:
    """Print text wrapped between words, so that no number is split; indents stay."""
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        write(
            textwrap.fill(line, page_width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        )


def write_styled(text: str) -> None:
    """Print lines that a `SafeConsole` rendered, with their styles."""
    print(text, file=getattr(sys.stdout, "unescaped", sys.stdout))


def write_json(value: object) -> None:
    """Print data as JSON; NaN and infinity become null."""
    write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def write_json_line(value: object) -> None:
    """Print data as JSON on one line."""
    write(msgspec.json.encode(value).decode())


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table that fits the terminal, and a blank line; cells are plain text, not markup."""
    terminal = sys.stdout.isatty()
    text = io.StringIO()  # rich would exit by itself on a closed pipe, with another status
    console = SafeConsole(
        file=text, force_terminal=terminal or None, width=page_width(), markup=False, highlight=False, emoji=False
    )
    console.print(FittingTable([*map(escaped, columns)], [[*map(escaped, row)] for row in rows], title))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    write_styled("\n".join(lines).strip("\n") + "\n")


def show_metrics(task: str, metrics: object) -> None:
    """Write metrics as a table, and below it one for each list of them; what is None was not measured."""
    values = {name: value for name, value in _flat(vars(metrics)) if value is not None and not _is_nan(value)}
    lists = {name: value for name, value in values.items() if isinstance(value, tuple)}
    write_table(
        (task, "value"), [(name.replace("_", " "), _cell(values[name])) for name in values if name not in lists]
    )
    for rows in lists.values():
        write_table([*vars(rows[0])], [[_cell(value) for value in vars(row).values()] for row in rows])


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _flat(values: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Values by name, with a group of metrics replaced by its values."""
    for name, value in values.items():
        if is_dataclass(value) and "signature" not in vars(value):
            yield from _flat(vars(value))
        else:
            yield name, value


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if is_dataclass(value):  # a score and its signature
        score, signature = vars(value).values()
        return f"{score:.2f}   {signature}"
    return f"{value:,}" if isinstance(value, int) else str(value)
