"""Texts of a command line: those given, and standard input where `-` is given."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import MaybePath, UsageError, talk
from glassformer.data.files import lines_of, read_lines
from glassformer.durable import cache_folder

if TYPE_CHECKING:
    from glassformer.asking.retrieval import Picture
    from glassformer.interface import LoadedModel

STANDARD_INPUT = "-"
TextArgument: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]
TextFile: TypeAlias = Annotated[MaybePath, Parameter(alias="-f", allow_leading_hyphen=True)]


def texts_of(given: Sequence[str], file: Path | None) -> list[str]:
    """The texts in their order, with the lines of standard input that are not blank in place of `-`; or a file's."""
    if file is not None:
        if given:
            raise UsageError("texts and --file are both given, wanted one of them")
        given = [line for _, line in read_lines(file) if line.strip()] if str(file) != STANDARD_INPUT else ["-"]
    elif not given:
        raise UsageError("there is no text: give one or more, --file, or - to read standard input line by line")
    if given.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once: give - once")
    found = [text for word in given for text in (_lines() if word == STANDARD_INPUT else [word])]
    if not any(text.strip() for text in found):
        raise UsageError("the text is empty")
    return found


def pictures_among(loaded: "LoadedModel", texts: Sequence[str]) -> "list[str | Picture]":
    """The texts; for a CLIP, those that name an image file as paths, which it reads as pictures."""
    from glassformer.data.images import ENDINGS
    from glassformer.models.clip import CLIP

    reads = isinstance(loaded.model, CLIP)
    return [Path(text) if reads and text.strip().lower().endswith(ENDINGS) else text for text in texts]


def whole_input(name: str) -> str:
    """All of standard input as one text; `name` says what it is."""
    try:
        text = standard_input().read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input: byte {error.start} is not UTF-8") from None
    if not text.strip():
        raise UsageError(f"standard input is empty: {name} has no text")
    return text.replace("\r\n", "\n")


def kept_input() -> str:
    """The path of a file with all of standard input: data is read more than once, and again on resuming."""
    data = standard_input().read()
    if not data.strip():
        raise UsageError("standard input is empty: there is nothing to train on")
    path = cache_folder() / f"input-{hashlib.sha256(data).hexdigest()[:16]}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    talk(f"standard input is kept in {path}")
    return str(path)


def standard_input() -> BinaryIO:
    """Standard input as bytes."""
    if sys.stdin is None:  # Python's value for a closed stream
        raise UsageError("standard input is closed: give the text itself")
    return sys.stdin.buffer


def _lines() -> Iterator[str]:
    return (line for _, line in lines_of(standard_input(), "standard input") if line.strip())
