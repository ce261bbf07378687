"""What a run was begun with: the configuration and the labels of its model, kept in its folder."""

from dataclasses import replace
from pathlib import Path

import msgspec

from glassformer.checkpoints.native import read_native
from glassformer.checkpoints.run_checkpoints import MODEL_CONFIG, run_model
from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.config import MOST_LAYERS, Config
from glassformer.safe_read import read_table
from glassformer.text.tokenizer import Tokenizer, has_tokenizer
from glassformer.training.task import DataContext


def resumed_context(context: DataContext, folder: Path) -> DataContext:
    """The context with the tokenizer, the labels and the configuration of a run in a folder, as far as it was begun."""
    if has_tokenizer(folder):
        context = replace(context, known=Tokenizer.load(folder))
    if not (folder / MODEL_CONFIG).exists():
        return context
    return replace(context, labels=read_labels(folder), config=read_config(folder))


def read_labels(folder: Path) -> tuple[str, ...] | None:
    """The labels that the run of a classifier was begun with, or None for any other run."""
    if not (folder / MODEL_CONFIG).exists():
        return None
    try:
        return msgspec.convert(read_table(folder / MODEL_CONFIG).get("labels"), tuple[str, ...] | None)
    except (msgspec.ValidationError, CheckpointError) as error:
        raise ConfigError(f"{folder / MODEL_CONFIG}: does not hold the labels of this run: {error}") from None


def read_config(folder: Path) -> Config:
    """The configuration of the model that a run was begun with."""
    return read_native(run_model(folder)[0], MOST_LAYERS, str(folder / MODEL_CONFIG))[0]
