"""Texts of a command line: those given, and the lines of standard input where `-` is given."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import UsageError

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


def _lines() -> Iterator[str]:
    from glassformer.data.files import lines_of

    if sys.stdin is None:  # Python's value for a closed stream
        raise UsageError("standard input is closed: give the text itself")
    return (line for _, line in lines_of(sys.stdin.buffer, "standard input") if line.strip())
