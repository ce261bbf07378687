"""The record of a run as TensorBoard event files, for those who watch their runs there."""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from glassformer.errors import MissingExtraError

CURVES = ("loss", "validation", "learning_rate", "grad_norm", "tokens")


@contextmanager
def tensorboard(folder: Path | str) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Open an event file in a folder; what is given takes records of `metrics.jsonl`, one at a time."""
    try:
        library = importlib.import_module("tensorboardX")
    except ModuleNotFoundError:
        raise MissingExtraError("writing TensorBoard files needs tensorboardX: pip install glassformer[log]") from None
    with library.SummaryWriter(logdir=str(folder)) as writer:

        def write(record: Mapping[str, object]) -> None:
            for name in CURVES:
                value = record.get(name)
                if isinstance(value, (int, float)) and math.isfinite(value):
                    writer.add_scalar(name, value, record["step"])
            if record.get("note"):
                writer.add_text("note", record["note"], record["step"])
            writer.flush()

        yield write
