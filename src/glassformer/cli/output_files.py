"""Output files: a command never overwrites a file that it did not write."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from glassformer.cli.report import UsageError

SEARCHED = 2**16  # bytes at either end of a file that may hold its mark

# Text that only files of these commands contain.
PAGE_MARK = '<meta name="generator" content="glassformer">'
NOTEBOOK_MARK = '"glassformer": {'
TRACE_MARK = '"generator": "glassformer trace"'
NUMBERS_MARK = '"generator":"glassformer trace"'
PARITY_MARK = "Made by `glassformer parity"
MAP_MARK = "<title>Word vectors by"
EXAMPLES_MARK = '{"example":1,'


def require_free(targets: Iterable[tuple[Path | None, str]]) -> None:
    """Raise unless the paths differ, and each is free or holds a file with the mark that the new one will have."""
    seen: set[Path] = set()
    for path, mark in targets:
        if path is None:
            continue
        if path.resolve() in seen:
            raise UsageError(f"{path}: two outputs have this path: name two files")
        seen.add(path.resolve())
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.is_file() and mark.encode() not in _both_ends(path):
            raise UsageError(f"{path}: already exists and was not written by this command: name another file")


def _both_ends(path: Path) -> bytes:
    with path.open("rb") as file:
        first = file.read(SEARCHED)
        file.seek(max(len(first), path.stat().st_size - SEARCHED))
        return first + file.read(SEARCHED)
