"""The log of a run as TensorBoard event files."""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from glassformer.errors import MissingExtraError

CURVES = ("loss", "validation", "learning_rate", "grad_norm", "tokens")

TEXTS = ("note", "sample")


def require_tensorboard() -> None:
    """Raise if the library that writes TensorBoard files is not installed."""
    try:
        importlib.import_module("tensorboardX")
    except ModuleNotFoundError:
        raise MissingExtraError(
            'writing TensorBoard files needs tensorboardX: pip install "glassformer[log]"'
        ) from None


@contextmanager
def tensorboard(folder: Path | str) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Open an event file in a folder, and yield a function that writes a record of `metrics.jsonl` to it."""
    require_tensorboard()
    with importlib.import_module("tensorboardX").SummaryWriter(logdir=str(folder)) as writer:

        def write(record: Mapping[str, object]) -> None:
            for name in CURVES:
                value = record.get(name)
                if isinstance(value, (int, float)) and math.isfinite(value):
                    writer.add_scalar(name, value, record["step"])
            for name in TEXTS:
                if record.get(name):
                    writer.add_text(name, record[name], record["step"])
            writer.flush()

        yield write
