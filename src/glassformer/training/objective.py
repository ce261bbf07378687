"""What to learn: a model and a batch in, the summed loss and the number of tokens it is summed over out."""

from collections.abc import Callable

from torch import Tensor

from glassformer.data.batches import IGNORE, Batch
from glassformer.equations.losses import cross_entropy
from glassformer.layers.model import Model

Objective = Callable[[Model, Batch, float], tuple[Tensor, Tensor]]


def next_token(model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Every token from those before it."""
    return _summed(model(batch["ids"]), batch["targets"], smoothing)


def next_target_token(model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Every target token from the source and the right target tokens before it: teacher forcing."""
    return _summed(model(batch["source"], batch["target"], batch["keep"]), batch["targets"], smoothing)


def _summed(scores: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Loss summed over the targets that count, and their number, so that batches of any size can be joined."""
    loss = cross_entropy(scores, targets, smoothing=smoothing, ignore=IGNORE, reduction="sum")
    return loss, (targets != IGNORE).sum()
