"""The log of a run as data, also while the run writes it."""

from pathlib import Path

import msgspec

from glassformer import durable
from glassformer.training.run_folder import LOG


def read_log(folder: Path) -> tuple[list[dict[str, object]], int]:
    """The lines of a run's log, and how many are damaged; a last line that is still being written is neither.

    A run that has logged nothing yet has no lines.
    """
    path = folder / LOG
    if not path.exists():
        return [], 0
    with durable.explained(f"{path}: cannot be read"):
        *lines, _unfinished = path.read_bytes().split(b"\n")
    records, damaged = [], 0
    for line in lines:
        try:
            records.append(msgspec.json.decode(line, type=dict[str, object]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            damaged += 1
    return records, damaged
