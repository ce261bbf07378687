"""Texts of a command line: those given, and standard input where `-` is given."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, BinaryIO, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import UsageError, talk

STANDARD_INPUT = "-"
TextArgument: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]


def texts_of(given: Sequence[str]) -> list[str]:
    """The texts in their order, with the lines of standard input that are not blank in place of `-`."""
    if not given:
        raise UsageError("there is no text: give one or more, or - to read standard input line by line")
    if given.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once: give - once")
    found = [text for word in given for text in (_lines() if word == STANDARD_INPUT else [word])]
    if not any(text.strip() for text in found):
        raise UsageError("the text is empty")
    return found


def kept_input() -> str:
    """The path of a file with all of standard input: data is read more than once, and again on resuming."""
    from glassformer.training.task import cache_folder

    data = _standard_input().read()
    if not data.strip():
        raise UsageError("standard input is empty: there is nothing to train on")
    path = cache_folder() / f"input-{hashlib.sha256(data).hexdigest()[:16]}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    talk(f"standard input is kept in {path}")
    return str(path)


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # Python's value for a closed stream
        raise UsageError("standard input is closed: give the text itself")
    return sys.stdin.buffer


def _lines() -> Iterator[str]:
    from glassformer.data.files import lines_of

    return (line for _, line in lines_of(_standard_input(), "standard input") if line.strip())
