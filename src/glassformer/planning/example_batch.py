"""A batch as a model is trained on, with shapes and no contents, for every architecture."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.data.packed_pairs import BOUNDS
from glassformer.errors import ConfigError
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.model import Model
from glassformer.models.dalle import DALLE
from glassformer.models.seq2seq import Seq2Seq
from glassformer.training.objective import Objective

CANDIDATES = 6  # a neighbor and the negatives of a skip-gram batch, by its default settings
USUAL_LENGTH, RECURRENT_LENGTH = 512, 64  # tokens where the model has no context
MOST_RECURRENT = 512  # tokens of a recurrent model, each of which is recorded
TEXT_INPUTS = ("ids", "source", "attention_mask")


def longest(model: Model) -> int | None:
    """The longest input of a model that is planned, in tokens, or None if it reads no tokens or has no limit."""
    return MOST_RECURRENT if model.loops else vars(model.config).get("context")


def usual_length(model: Model, objective: Objective) -> int:
    """The length to plan for where none is given: the context, at most 1024 by default; 0 without tokens."""
    if not set(objective.inputs) & set(TEXT_INPUTS):
        return 0
    if isinstance(model, DALLE):
        return model.config.context
    if model.loops:
        return RECURRENT_LENGTH
    return min(longest(model) or USUAL_LENGTH, 4 * USUAL_LENGTH)


def has_length(model: Model, objective: Objective) -> bool:
    """Whether the examples of a model can have more or fewer tokens."""
    return usual_length(model, objective) > 0 and not isinstance(model, DALLE)


def as_trained(objective: Objective, model: Model, dtype: str, length: int, compiles: bool) -> Objective:
    """The objective of batches as training makes them: pairs of texts are packed on a GPU, where a model can read it.

    All pairs of an example are equally long.
    """
    packs = objective.packing is not None and isinstance(model, Seq2Seq) and dtype == "bfloat16" and compiles
    return replace(objective, longest=length) if packs else objective


def example_batch(model: Model, objective: Objective, batch: int, length: int) -> Batch:
    """Zeros in the shapes of a batch, on the device where torch puts new tensors."""
    limit = longest(model)
    if limit is not None and length > limit:
        why = "a plan records each token of a recurrent model" if model.loops else "the model's context"
        raise ConfigError(f"length is {length}, wanted at most {limit}: {why}")
    if objective.packing is not None and objective.longest is not None:
        bounds = torch.arange(batch + 1, dtype=torch.int32)[None] * length
        rows = {name: torch.zeros(1, batch * length, dtype=torch.long) for name in ("source", "target", "targets")}
        return rows | dict.fromkeys(BOUNDS, bounds)
    found = {name: _made(name, model, batch, length) for name in objective.inputs}
    found[objective.targets] = _targets(objective, model, batch, length, found)
    return found


def _made(name: str, model: Model, batch: int, length: int) -> Tensor:
    config = vars(model.config)
    makers: dict[str, Callable[[], Tensor]] = {
        "attention_mask": lambda: torch.ones(batch, length, dtype=torch.bool),
        "pixel_values": lambda: torch.zeros(batch, config["channels"], config["image_size"], config["image_size"]),
        "x": lambda: torch.zeros(batch, config["inputs"]),
        "centers": lambda: torch.zeros(batch, 1, dtype=torch.long),
        "candidates": lambda: torch.zeros(batch, CANDIDATES, dtype=torch.long),
    }
    return makers.get(name, lambda: torch.zeros(batch, length, dtype=torch.long))()


def _targets(objective: Objective, model: Model, batch: int, length: int, inputs: Batch) -> Tensor:
    """The targets: one for each token, row or number, as the objective reads them."""
    if objective.targets in inputs:
        return inputs[objective.targets]
    if objective.targets == "y":
        return torch.zeros(batch, model.config.outputs)
    if objective.targets == "targets":
        return torch.zeros(batch, length, dtype=torch.long)
    spans = "token_types" in objective.inputs and not isinstance(model, ImageClassifier)
    return torch.zeros(batch, 2, dtype=torch.long) if spans else torch.zeros(batch, dtype=torch.long)
