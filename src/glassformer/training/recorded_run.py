"""A run as its folder records it: its settings and its log, also while it is trained."""

import tomllib
from pathlib import Path

import msgspec

from glassformer import durable
from glassformer.errors import RunFolderError
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import LOG

CONFIG = "config.toml"  # in the folder of a run


class RecordedStart(msgspec.Struct, frozen=True):
    """What a run started from: the folder of a model to fine-tune, or nothing."""

    init: str = ""


class RecordedSettings(msgspec.Struct, frozen=True):
    """What the settings of a run say about its training."""

    task: str
    recipe: Recipe
    run: RecordedStart = RecordedStart()


def recorded_settings(folder: Path) -> RecordedSettings:
    """The task and the recipe that a run was begun with."""
    path = folder / CONFIG
    with durable.explained(f"{path}: cannot be read"):
        text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return msgspec.convert(tomllib.loads(text), RecordedSettings)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise RunFolderError(f"{path}: does not hold the settings of a run: {error}") from None


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
