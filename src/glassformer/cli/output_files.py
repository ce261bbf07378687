"""Files that a command is asked to write: never over a file that it did not write itself."""

import errno
import os
from pathlib import Path

from glassformer.cli.report import UsageError

SOUGHT = 2**16  # bytes at either end of a file in which its mark stands

# What only our own files have in them.
PAGE_MARK = '<meta name="generator" content="glassformer">'
NOTEBOOK_MARK = '"glassformer": {'
TRACE_MARK = '"generator": "glassformer trace"'
NUMBERS_MARK = '"generator":"glassformer trace"'
PARITY_MARK = "Made by `glassformer parity"


def require_ours(targets: dict[Path, str]) -> None:
    """Refuse to write unless each path is free, or holds a file with the mark that the new one will have."""
    for path, mark in targets.items():
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.is_file() and mark.encode() not in _both_ends(path):
            raise UsageError(f"{path}: is there already and was not written by this command: name another file")


def require_apart(first: Path | None, second: Path | None) -> None:
    """Refuse two files to write that are one."""
    if first is not None and second is not None and first.resolve() == second.resolve():
        raise UsageError(f"{first}: two files would be written there: name two")


def _both_ends(path: Path) -> bytes:
    with path.open("rb") as file:
        first = file.read(SOUGHT)
        file.seek(max(len(first), path.stat().st_size - SOUGHT))
        return first + file.read(SOUGHT)
